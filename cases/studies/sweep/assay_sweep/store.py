"""The store of sweeps: a file of JSON Lines is the record, an SQLite file beside it an index that is rebuilt
from it.

Each line is one write under a lock, made when its cell ends: whatever ends a run, at most the cell under way
is lost. A line that was cut in the middle is dropped by the next writer. Lines, by the member that names
their kind:
    schema   the first line: {"schema": "assay-sweep-store", "version": 1}
    run      a run begins: command, what repeats it, commit, machine, versions, the cells that it was asked
    for
    cell     a result of the run `of`
    end      the run `of` ended: "complete", or what stopped it
    good     the run `of` is a night that later ones are compared with
    accept   a change of cells that is expected from the run `of` on, by name and with its reason
"""
import fcntl
import hashlib
import json
import os
import sqlite3

SCHEMA = {"schema": "assay-sweep-store", "version": 1}
# What differs from one measurement of a cell to the next although the cell gave the same answers.
VOLATILE = ("kernel_seconds", "reference_seconds", "total_seconds", "bytes_per_second", "seconds",
            "prefill_seconds",
            "guess", "finished", "of", "host")


class StoreError(Exception):
    """A file that is no store, or a store that cannot be written: the program ends with 2."""


UNMEASURED = ("failed", "crash", "hang", "lost", "impossible")


def timed(row):
    """The seconds that a cell took; None of one that was not measured to its end, whose seconds say nothing
    of the next."""
    return None if row.get("verdict") in UNMEASURED else row.get("total_seconds") or None


def measured(row):
    """What was found in a cell, without what the clock and the run put there."""
    return {k: v for k, v in row.items() if k not in VOLATILE}


class Store:
    def __init__(self, path):
        self.path = os.fspath(path)
        self._connection = None

    def append(self, line):
        text = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
        self._refuse_odd()
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size == 0:
                text = (json.dumps(SCHEMA) + "\n").encode() + text
            else:
                whole = self._whole(descriptor, size)
                if whole < size:
                    os.ftruncate(descriptor, whole)
            written = os.write(descriptor, text)
            if written != len(text):
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)
                raise StoreError(f"the store {self.path} cannot be written: no space")
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _refuse_odd(self):
        """A pipe would be waited for, and a device has no end."""
        if os.path.lexists(self.path) and not os.path.isfile(self.path):
            raise StoreError(f"{self.path} is no store: it is no ordinary file")

    @staticmethod
    def _whole(descriptor, size):
        """The bytes up to the end of the last whole line."""
        at = size
        while at > 0:
            step = min(65536, at)
            block = os.pread(descriptor, step, at - step)
            found = block.rfind(b"\n")
            if found >= 0:
                return at - step + found + 1
            at -= step
        return 0

    def lines(self, offset=0):
        """(offset behind the line, line) of every whole line from an offset on."""
        self._refuse_odd()
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            raise StoreError(f"there is no store at {self.path}") from None
        with file:
            file.seek(offset)
            for number, raw in enumerate(file, 1):
                if not raw.endswith(b"\n"):
                    return  # cut in the middle: its run was killed, and its cell is measured again
                offset += len(raw)
                try:
                    line = json.loads(raw)
                except ValueError as error:
                    raise StoreError(f"{self.path}: line {number} behind byte {offset - len(raw)} is no JSON: {error}") from None
                if not isinstance(line, dict):
                    raise StoreError(f"{self.path}: line {number} behind byte {offset - len(raw)} is no object: {raw[:60].decode(errors='replace').strip()}")
                if offset == len(raw) and line != SCHEMA:
                    raise StoreError(f"{self.path} is no store: its first line must be {json.dumps(SCHEMA)}")
                yield offset, line

    def index(self):
        """The index, brought up to the record: made new where it is missing, damaged, or of another
        record."""
        self._refuse_odd()
        if not os.path.exists(self.path):
            raise StoreError(f"there is no store at {self.path}")
        if self._connection is None:
            self._connection = self._open()
        try:
            self._catch_up(self._connection)
        except sqlite3.DatabaseError:
            self._connection.close()
            os.unlink(self.path + ".sqlite")
            self._connection = self._open()
            self._catch_up(self._connection)
        return self._connection

    def _open(self):
        connection = sqlite3.connect(self.path + ".sqlite", timeout=60)
        connection.row_factory = sqlite3.Row
        return connection

    def _catch_up(self, db):
        db.executescript("""
            CREATE TABLE IF NOT EXISTS position(done INTEGER, tail TEXT);
            CREATE TABLE IF NOT EXISTS runs(id TEXT PRIMARY KEY, started TEXT, ended TEXT, good INTEGER DEFAULT 0, header TEXT);
            CREATE TABLE IF NOT EXISTS cells(run TEXT, cell TEXT, kind TEXT, verdict TEXT, right INTEGER, needles INTEGER,
                                             seconds REAL, row TEXT, PRIMARY KEY(run, cell));
            CREATE INDEX IF NOT EXISTS by_cell ON cells(cell);
            CREATE TABLE IF NOT EXISTS accepted(run TEXT, cells TEXT, reason TEXT);""")
        position = db.execute("SELECT done, tail FROM position").fetchone()
        if position is None or position["tail"] != self._tail(position["done"]):
            for table in ("position", "runs", "cells", "accepted"):
                db.execute(f"DELETE FROM {table}")
            db.execute("INSERT INTO position VALUES (0, '')")
            position = {"done": 0}
        done = position["done"]
        for done, line in self.lines(done):
            try:
                self._take(db, line)
            except (KeyError, TypeError, ValueError, OverflowError, sqlite3.InterfaceError,
                    sqlite3.ProgrammingError) as error:
                raise StoreError(f"{self.path}: the line that ends at byte {done} is none of a store: {type(error).__name__}: {error}") from None
        db.execute("UPDATE position SET done = ?, tail = ?", (done, self._tail(done)))
        db.commit()

    def _tail(self, done):
        """What stands in front of a position: another record at the same path, though it be as long and have
        the same inode, has
        other times and ids there."""
        with open(self.path, "rb") as file:
            file.seek(max(0, done - 4096))
            text = file.read(min(done, 4096))
        return f"{len(text)} {hashlib.sha256(text).hexdigest()}" if done else ""

    @staticmethod
    def _take(db, line):
        if "run" in line:
            db.execute("INSERT OR REPLACE INTO runs(id, started, header) VALUES (?, ?, ?)",
                       (line["run"], line.get("started", ""), json.dumps(line)))
        elif "cell" in line:
            db.execute("INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                       (line["of"], line["cell"], line.get("kind"), line.get("verdict"), line.get("right"),
                        line.get("needles"), line.get("total_seconds"), json.dumps(line)))
        elif "end" in line:
            db.execute("UPDATE runs SET ended = ? WHERE id = ?", (line["end"], line["of"]))
        elif "good" in line:
            db.execute("UPDATE runs SET good = ? WHERE id = ?", (int(line["good"]), line["of"]))
        elif "accept" in line:
            db.execute("INSERT INTO accepted VALUES (?, ?, ?)", (line["of"], line["accept"], line["reason"]))

    # What the program asks of it.

    def runs(self, kind=None):
        """Headers, oldest first, with `ended` and `good`."""
        found = []
        for row in self.index().execute("SELECT * FROM runs ORDER BY started, id"):
            header = json.loads(row["header"])
            if kind is None or header.get("kind") == kind:
                found.append({**header, "ended": row["ended"], "good": bool(row["good"])})
        return found

    def run(self, name):
        """A run by its id, or "last"."""
        runs = self.runs()
        for run in reversed(runs):
            if name in ("last", run["run"]):
                return run
        raise StoreError(f"{self.path}: no run {name}; there are: {', '.join(r['run'] for r in runs) or 'none'}")

    def cells(self, run):
        return {row["cell"]: json.loads(row["row"])
                for row in self.index().execute("SELECT cell, row FROM cells WHERE run = ? ORDER BY rowid",
                                                (run,))}

    def history(self, cell):
        """All measurements of a cell, oldest first."""
        return [json.loads(row["row"]) for row in self.index().execute(
            "SELECT row FROM cells JOIN runs ON runs.id = cells.run WHERE cell = ? ORDER BY started, id",
            (cell,))]

    def accepted(self):
        return [dict(row) for row in self.index().execute("SELECT * FROM accepted")]
