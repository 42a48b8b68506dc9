# SPDX-License-Identifier: Apache-2.0
"""Small traces from real GPUs, kept with the truth beside them, and judged again later.

One folder a program; every file is compressed with gzip (without a time stamp, so that
the same content gives the same file).
"""

import gzip
import shutil
import tempfile
from pathlib import Path

import compare
from execution import judge_folder

LARGEST_PROGRAM_BYTES = 1536 << 10


def save(source, target):
    """Keeps the traces, truths and report of one program; one sentence says what happened."""
    files = sorted((source / "traces").iterdir()) + sorted(source.glob("truth.json*"))
    files += [source / name for name in ("report.json", "symbols.json", "expected.json")]
    packed = {path: gzip.compress(path.read_bytes(), mtime=0) for path in files if path.is_file()}
    total = sum(len(content) for content in packed.values())
    if total > LARGEST_PROGRAM_BYTES:
        return f"not saved: {total} bytes are more than {LARGEST_PROGRAM_BYTES}"
    shutil.rmtree(target, ignore_errors=True)
    for path, content in packed.items():
        place = target / path.relative_to(source).with_name(path.name + ".gz")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return f"saved {len(packed)} files, {total} bytes, in {target}"


def replay(saved, settings):
    """Verdicts of one saved program, by the analyzer of today; needs no GPU."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for path in sorted(saved.rglob("*.gz")):
            place = (folder / path.relative_to(saved)).with_suffix("")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(gzip.decompress(path.read_bytes()))
        if not (folder / "traces").is_dir():
            return [compare.failed("saved data", f"{saved} holds no traces/*.gz")]
        (folder / "report.json").unlink(missing_ok=True)
        return judge_folder(folder, settings)
