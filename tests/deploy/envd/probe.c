/* All programs of an image that has nothing else: static, like busybox, but made where the tests run.
   `probe show` tells what a command finds; `probe copy` is cat; `probe size` a terminal's size; `probe serve PORT` answers
   one request; `probe write PATH` makes a file; `probe sleep` never ends. Called sh, it runs the words after -c. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

static int show(void) {
    char folder[4096];
    printf("uid=%d gid=%d groups=%d cwd=%s\n", getuid(), getgid(), getgroups(0, NULL), getcwd(folder, sizeof folder));
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("fd=%d\n", fd);
    for (char **each = environ; *each; each++)
        printf("env %s\n", *each);
    return 0;
}

static int copy(void) {
    char piece[65536];
    for (ssize_t size; (size = read(0, piece, sizeof piece)) > 0;)
        if (write(1, piece, size) != size)
            return 1;
    return 0;
}

static int size(void) {
    struct winsize size;
    if (ioctl(0, TIOCGWINSZ, &size))
        return 1;
    printf("%d %d\n", size.ws_row, size.ws_col);
    return 0;
}

static int serve(int port) {
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nserve";
    struct sockaddr_in address = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    char request[4096];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 8))
        return 1;
    puts("ready");
    fflush(stdout);
    int client = accept(listener, NULL, NULL);
    return read(client, request, sizeof request) <= 0 || write(client, answer, strlen(answer)) <= 0;
}

static int run(char *line) {
    char *words[64];
    int count = 0;
    for (char *word = strtok(line, " "); word && count < 63; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    execvp(words[0], words);
    return 127;
}

int main(int count, char **arguments) {
    const char *name = strrchr(arguments[0], '/') ? strrchr(arguments[0], '/') + 1 : arguments[0];
    if (!strcmp(name, "sh"))
        return run(arguments[count - 1]);
    if (count < 2)
        return 2;
    if (!strcmp(arguments[1], "show"))
        return show();
    if (!strcmp(arguments[1], "copy"))
        return copy();
    if (!strcmp(arguments[1], "size"))
        return size();
    if (!strcmp(arguments[1], "serve"))
        return serve(atoi(arguments[2]));
    if (!strcmp(arguments[1], "write"))
        return open(arguments[2], O_WRONLY | O_CREAT, 0644) < 0;
    return pause();
}
