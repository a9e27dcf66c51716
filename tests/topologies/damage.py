"""Damage to the files of an interrupted run, as disks and people do it."""

import shutil


def flip(path, position=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 1
    path.write_bytes(content)


def halve(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def put_garbage_into(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"\0\xff\n\r{}garbage" + content[len(content) // 2 + 300 :])


def add_garbage_to(path):
    path.write_bytes(path.read_bytes() + b"\0" * 700 + b'\n{"event":"round_closed"}\n[[')


def delete(path):
    path.unlink()


def damage_at_random(folder, chance):
    """Damage one file or some of a folder; returns which."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    chosen = chance.sample(files, min(len(files), chance.choice((1, 1, 1, 2, 3))))
    for path in chosen:
        match chance.randrange(4):
            case 0 if path.stat().st_size:
                flip(path, chance.randrange(path.stat().st_size))
            case 1:
                path.write_bytes(path.read_bytes()[: chance.randint(0, path.stat().st_size)])
            case 2:
                start = chance.randint(0, path.stat().st_size)
                rubbish = chance.randbytes(chance.randint(1, 600))
                path.write_bytes(path.read_bytes()[:start] + rubbish + path.read_bytes()[start + len(rubbish) :])
            case _:
                path.unlink()
    return chosen


def copied(folder, to):
    """Copy a folder, in place of what was there."""
    shutil.rmtree(to, ignore_errors=True)
    return shutil.copytree(folder, to)
