# SPDX-License-Identifier: Apache-2.0
"""The library as a file: what it needs, what it exports, how it is mapped."""

import re
import subprocess
import unittest

import support

SOURCE = support.HERE.parent.parent
PYTORCH_HOOK = re.compile(r"_ZN3c10(\d+report(MemoryUsage|OutOfMemory)ToProfilerE|"
                          r"16CachingAllocator26AcceleratorAllocatorConfig9parseArgsE|"
                          r"4cuda20setCurrentCUDAStreamENS0_10CUDAStreamE$)|"
                          r"_ZN2at(6detail13empty_genericE|6detail21empty_strided_genericE|"
                          r"6native17resize_bytes_cudaE)|"
                          r"_ZN5torch8autograd6Engine7executeE")
PROGRAM_API = ("mark", "pop", "push", "start", "step", "stop", "suppress", "tensor")
OLDEST_GLIBC = (2, 28)


def readelf(option):
    return subprocess.run(
        ["readelf", "--wide", option, str(support.LIBRARY)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def wrapped_functions():
    """The symbols of the rows of apis.def."""
    names = set()
    for line in (SOURCE / "preload" / "driver" / "apis.def").read_text().splitlines():
        row = re.match(r"GPUMEMTRACE_API(?:_AND_(PTSZ|PTDS))?\((\w+), \"", line)
        if row is None:
            continue
        names.add(row[2])
        if row[1] is not None:
            names.add(f"{row[2]}_{row[1].lower()}")
    return names


def exit_functions():
    """The symbols of the rows of exit_functions.def."""
    return set(re.findall(r"^GPUMEMTRACE_EXIT_FUNCTION\((\w+), ",
                          (SOURCE / "preload" / "loader" / "exit_functions.def").read_text(),
                          re.MULTILINE))


def cupti_functions():
    """The functions of CUPTI that the library stands before."""
    return set(re.findall(r"^GPUMEMTRACE_CUPTI_SERVED\((\w+), ",
                          (SOURCE / "cupti" / "functions.def").read_text(), re.MULTILINE))


# pthreads(7): what libc makes a place to cancel a thread at.
CANCELLATION_POINTS = set("""
    accept accept4 aio_suspend clock_nanosleep close connect creat fcntl fcntl64 fdatasync fallocate
    fsync epoll_pwait epoll_wait getmsg getpmsg lockf mq_receive mq_send mq_timedreceive mq_timedsend
    msgrcv msgsnd msync nanosleep open openat pause poll ppoll pread preadv pselect
    pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel putmsg putpmsg pwrite
    pwritev read readv recv recvfrom recvmsg select sem_timedwait sem_wait send sendmsg sendto sigpause
    sigsuspend sigtimedwait sigwait sigwaitinfo sleep system tcdrain thrd_join thrd_sleep usleep wait
    wait3 wait4 waitid waitpid write writev
    fclose fflush fopen fprintf fputs fread fwrite getc getline printf puts syslog vfprintf vprintf
    opendir readdir closedir popen pclose sync_file_range copy_file_range splice tee vmsplice
""".split())
# The files that may have some, and why no thread of the program is cancelled in them.
HAVE_CANCELLATION_POINTS = {
    "base/files.cpp.o": "the file thread, and the thread that starts with cancellation off",
    "base/own_file.cpp.o": "the file thread",
    "loader/loader_list.cpp.o": "the file thread, for files whose headers are not in memory",
}


class Objects(support.EndToEnd):
    def test_no_thread_of_the_program_is_cancelled_in_our_code(self):
        objects = [path for folder in ("preload", "cupti", "trace")
                   for path in (support.BUILD / folder / "CMakeFiles").rglob("*.o")
                   if "gpumemtrace_trace_reader.dir" not in path.parts]
        self.assertGreater(len(objects), 80)
        undefined = subprocess.run(
            ["nm", "--undefined-only", "--print-file-name", "--format=posix", *map(str, objects)],
            check=True, capture_output=True, text=True).stdout
        found = set()
        for path, symbol in re.findall(r"^(.*?):? (\w+)(?:@\S+)? U", undefined, re.MULTILINE):
            name = re.sub(r"^__|_chk$|(_2|64)$", "", symbol)
            if name in CANCELLATION_POINTS:
                found.add("/".join(path.split("/")[-2:]))
        self.assertEqual(found, set(HAVE_CANCELLATION_POINTS))


class Library(support.EndToEnd):
    def test_needs_nothing_but_glibc(self):
        needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic")))
        self.assertLessEqual(
            needed,
            {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2",
             "ld-linux-aarch64.so.1"},
        )

    def test_exports_the_hooks_and_nothing_else(self):
        exported = set()
        for line in readelf("--dyn-syms").splitlines():
            fields = line.split()
            if len(fields) >= 8 and fields[0][:-1].isdigit() and fields[6] != "UND":
                exported.add(fields[7].split("@")[0])
        hooks = {name for name in exported if PYTORCH_HOOK.match(name)}
        self.assertGreaterEqual(len(hooks), 12)
        wrapped = wrapped_functions()
        self.assertGreater(len(wrapped), 250)
        self.assertEqual(
            exported - hooks,
            wrapped
            | exit_functions()
            | cupti_functions()
            | {"cuGetProcAddress", "cuGetProcAddress_v2", "dlclose", "dlsym", "dlvsym"}
            | {f"gpumemtrace_{name}" for name in PROGRAM_API}
            | {"InitializeInjectionNvtx2", "InitializeInjectionNvtxExtension"},
        )

    def test_runs_on_old_systems(self):
        versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("--version-info"))
        self.assertTrue(versions)
        self.assertLessEqual(
            max((int(major), int(minor)) for major, minor in versions), OLDEST_GLIBC)
        self.assertNotIn("GLIBCXX", readelf("--version-info"))

    def test_asks_libc_for_nothing_that_stood_in_another_file_before_glibc_2_34(self):
        # Loaders before glibc 2.30 end a program over such a reference, even a weak one.
        undefined = {line.split()[7].split("@")[0]
                     for line in readelf("--dyn-syms").splitlines() if " UND " in line
                     and len(line.split()) >= 8}
        self.assertIn("fcntl", undefined)
        elsewhere = {name for name in undefined if re.match(r"dl[a-z]|pthread_|sem_|shm_|timer_", name)}
        self.assertEqual(elsewhere - {"dl_iterate_phdr", "pthread_self", "pthread_setcancelstate"}, set())

    def test_initializes_nothing_at_first_use(self):
        symbols = subprocess.run(
            ["nm", str(support.LIBRARY)], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("_ZGV", symbols)  # the guards of static variables

    def test_has_no_executable_stack_and_no_writable_code(self):
        flags = {}
        for line in readelf("--program-headers").splitlines():
            row = re.match(r"\s+(LOAD|GNU_STACK)\s+(?:0x[0-9a-f]+\s+){5}([RWE ]{3})", line)
            if row is not None:
                flags.setdefault(row[1], []).append(row[2])
        self.assertEqual(len(flags["GNU_STACK"]), 1)
        self.assertNotIn("E", flags["GNU_STACK"][0])
        for load in flags["LOAD"]:
            self.assertFalse("W" in load and "E" in load, load)

    def test_has_no_relocations_in_code(self):
        self.assertNotIn("TEXTREL", readelf("--dynamic"))

    def test_binds_everything_when_it_is_loaded(self):
        self.assertIn("NOW", readelf("--dynamic"))


if __name__ == "__main__":
    unittest.main()
