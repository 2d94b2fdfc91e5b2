"""Event files that TensorBoard reads, with scalars in them.

Written by hand, for a handful of bytes is no reason to depend on tensorboard and its protobuf: a record is the length of
its data, a checksum of that, the data, and a checksum of it (TFRecord); the data is a protobuf message `Event` with a
time (field 1, double), a step (field 2, varint) and one of a version (field 3, text), a `Summary` (field 5), which is
a list (field 1) of a tag (field 1, text) and a value (field 2, float), and a `SessionLog` (field 7) whose status (field
1, varint) says that a run begins (1): readers then forget the steps from there on.
"""

import os
import socket
import struct
import time
from typing import BinaryIO


def _table() -> list[int]:
    out = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        out.append(byte)
    return out


_TABLE = _table()


def checksum(data: bytes) -> int:
    """Masked CRC-32C (rotated and offset), as TFRecord requires."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Data with its length and both checksums."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", checksum(length)) + data + struct.pack("<I", checksum(data))


def _varint(n: int) -> bytes:
    # Negative numbers are 64 bits in two's complement.
    n &= (1 << 64) - 1
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def event(when: float, step: int, scalars: dict[str, float]) -> bytes:
    """A message with scalars of one step."""
    values = b"".join(
        _bytes(1, _bytes(1, tag.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", _float(value)))
        for tag, value in scalars.items()
    )
    return _head(when, step) + _bytes(5, values)


def _head(when: float, step: int) -> bytes:
    return _varint(1 << 3 | 1) + struct.pack("<d", when) + _varint(2 << 3) + _varint(step)


def _float(value: float) -> float:
    """What float32 holds: too large is infinite."""
    try:
        struct.pack("<f", value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


class EventFile:
    """A file of events in a folder; every line of it is written at once, so nothing is lost when a run is killed."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        # Two files of one second must not be one.
        name = f"events.out.tfevents.{int(now):010d}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        self.path = os.path.join(folder, name)
        self._file: BinaryIO = open(self.path, "wb")  # noqa: SIM115  (closed by `close`)
        version = _varint(1 << 3 | 1) + struct.pack("<d", now) + _bytes(3, b"brain.Event:2")
        self._file.write(record(version))
        self._file.flush()

    def start(self, step: int) -> None:
        """A run goes on with this step: what others wrote of it and of later ones does not count."""
        self._file.write(record(_head(time.time(), step) + _bytes(7, b"\x08\x01")))
        self._file.flush()

    def write(self, step: int, scalars: dict[str, float]) -> None:
        """Scalars of one step, by name."""
        self._file.write(record(event(time.time(), step, scalars)))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
