#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes libraries to link against that have glibc's symbols of an old version and no code, so that
what is linked here runs on systems with that glibc or any later one.

    make_stubs.py FOLDER VERSION COMPILER     writes FOLDER/libc.so, libm.so, libdl.so, libpthread.so

glibc keeps every version of a function that it ever had. The linker takes the newest that the library
shows; these libraries show, of every name, the newest that is not newer than VERSION (2.28). What was
in libpthread.so.0 and libdl.so.2 then is in libc.so.6 now; the loader looks for a name and its
version in all libraries of a program, so that the place does not matter.
"""

import pathlib
import re
import subprocess
import sys

SYMBOL = re.compile(
    r"^ *\d+: [0-9a-f]+ +(?P<size>\d+|0x[0-9a-f]+) (?P<type>\w+) +(?:GLOBAL|WEAK) +DEFAULT +(?!UND)\w+ "
    r"(?P<name>[^@ ]+)@@?(?P<version>GLIBC_[0-9.]+)$")
LIBRARIES = {"libc.so.6": "libc.so.6", "libm.so.6": "libm.so"}
EMPTY = {"libdl.so.2": "libdl.so", "libpthread.so.0": "libpthread.so"}


def number(version):
    return tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))


def path_of(compiler, library):
    return subprocess.run([compiler, f"-print-file-name={library}"], capture_output=True, text=True,
                          check=True).stdout.strip()


def symbols_of(library, newest):
    """Each name with its type, size and newest version that is old enough."""
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True,
                          check=True).stdout
    symbols = {}
    for line in text.splitlines():
        found = SYMBOL.match(line)
        if not found or number(found["version"]) > newest or found["name"] == found["version"]:
            continue
        known = symbols.get(found["name"])
        if known is None or number(known[2]) < number(found["version"]):
            symbols[found["name"]] = (found["type"], int(found["size"], 0), found["version"])
    return symbols


def build(folder, compiler, soname, file, symbols):
    code = []
    for index, (name, (kind, size, version)) in enumerate(sorted(symbols.items())):
        is_data = kind in ("OBJECT", "TLS")
        section = {"OBJECT": ".bss", "TLS": '.section .tbss,"awT",@nobits'}.get(kind, ".text")
        code += [section, f".globl stub_{index}", f".type stub_{index}, @{'tls_object' if kind == 'TLS' else 'object' if is_data else 'function'}",
                 f"stub_{index}:", f".skip {max(size, 1) if is_data else 1}", f".size stub_{index}, {size}",
                 f".symver stub_{index}, {name}@@{version}"]
    versions = sorted({version for _, _, version in symbols.values()}, key=number)
    script = "".join(f"{version} {{}};\n" for version in versions) or "GLIBC_STUB {};\n"
    (folder / f"{file}.map").write_text(script + "NONE { local: stub_*; };\n")
    (folder / f"{file}.s").write_text("\n".join(code) + "\n.section .note.GNU-stack,\"\",@progbits\n")
    subprocess.run([compiler, "-shared", "-nostdlib", "-fPIC", f"-Wl,-soname,{soname}",
                    f"-Wl,--version-script={folder / (file + '.map')}", "-o", folder / file,
                    folder / f"{file}.s"], check=True)


def main(folder, version, compiler):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for soname, file in LIBRARIES.items():
        build(folder, compiler, soname, file, symbols_of(path_of(compiler, soname), number(version)))
    for soname, file in EMPTY.items():
        build(folder, compiler, soname, file, {})
    # As glibc's own libc.so, which is a script for the linker.
    parts = (folder.resolve() / "libc.so.6", path_of(compiler, "libc_nonshared.a"))
    (folder / "libc.so").write_text(
        f"GROUP ( {parts[0]} {parts[1]} AS_NEEDED ( {path_of(compiler, 'ld-linux-x86-64.so.2')} ) )\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
