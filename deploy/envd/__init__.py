"""Packs envd so that it runs in any Linux image, also one without a C library: a folder, and an image that carries it.

    bin/envd                  a static program that starts the interpreter, with nothing of the image's in its way
    loader/envd               the dynamic loader; its name is what `ps` and the kernel's messages call the daemon
    python/bin/python3        the interpreter that made the pack
    python/lib/*.so.*         its shared libraries, found by ldd
    python/lib/python3.N/     the modules that envd ever imports, and envd itself, compiled

A `#!` line cannot pass the loader's options and there may be no shell, so `bin/envd` is a program. It is the one
command of a Pod, here as in the first run, where the same path is a script. An init container copies the pack into
a volume with `envd install FOLDER`. Nothing of the product imports this package.
"""
