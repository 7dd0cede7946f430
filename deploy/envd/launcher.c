/* The pack's bin/envd: starts the packed interpreter through the packed loader. Static, because the image may have no
   C library. The variables that the loader would obey are dropped: an image may preload a library of its own into
   whatever runs in it, and that would be built for another C library than ours. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PACK "/opt/agentbox"
#define LOADER PACK "/loader/envd"

extern char **environ;

static int is_for_loaders(const char *variable) {
    return !strncmp(variable, "LD_", 3) || !strncmp(variable, "GLIBC_TUNABLES=", 15);
}

int main(int count, char **arguments) {
    char *command[] = {
        "envd", "--library-path", PACK "/python/lib", PACK "/python/bin/python3", "-ISBXutf8", "-c",
        "from envd.main import main; main()",
        count > 1 ? arguments[1] : NULL, count > 2 ? arguments[2] : NULL, NULL,
    };
    char **kept = environ;
    for (char **each = environ; *each; each++)
        if (!is_for_loaders(*each))
            *kept++ = *each;
    *kept = NULL;
    execv(LOADER, command);
    perror("envd: " LOADER);
    return 127;
}
