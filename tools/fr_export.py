#!/usr/bin/env python3
"""Turns distwrap recordings into files of PyTorch's flight recorder.

    tools/fr_export.py RECORDINGS OUT
    torchfrtrace OUT --prefix rank_

RECORDINGS is a folder as `distwrap info --recorder` reads it; OUT, made when it
is missing, gets rank_0, rank_1, ... What cannot be told, such as the stack of
the call, holds the call's label. Needs no PyTorch.
"""

import argparse
import json
import pathlib
import pickle
import sys

# The version of PyTorch's format that this writes.
VERSION = "2.4"

DTYPES = {
    "u8": "Byte", "i8": "Char", "i16": "Short", "i32": "Int", "i64": "Long",
    "u16": "UInt16", "u32": "UInt32", "u64": "UInt64", "f16": "Half",
    "bf16": "BFloat16", "f32": "Float", "f64": "Double", "bool": "Bool",
}

# Names of operations in PyTorch's traces where they are not ours.
OPS = {
    "all_gather": "_all_gather_base",
    "reduce_scatter": "_reduce_scatter_base",
    "barrier": "all_reduce_barrier",
}


def state_of(operation):
    if operation["state"] == "done":
        return "completed"
    return "scheduled" if operation["state"] == "queued" else "started"


def sizes(operation, side):
    """Sizes and types of one side: PyTorch wants a list of each."""
    count = operation.get(side, 0)
    if "dtype" not in operation or count == 0:
        return [], []
    return [[count]], [DTYPES[operation["dtype"]]]


def entry_of(operation, group, record, p2p_number):
    is_p2p = operation["op"] in ("send", "recv")
    name = OPS.get(operation["op"], operation["op"])
    if is_p2p:
        me, peer = group["rank"], operation["peer"]
        source, target = (me, peer) if name == "send" else (peer, me)
        name = f"{name} {source}->{target}"
    input_sizes, input_dtypes = sizes(operation, "in")
    output_sizes, output_dtypes = sizes(operation, "out")
    ended = operation.get("ended_ns")
    started = operation.get("started_ns")
    return {
        "record_id": record,
        "pg_id": group["group"],
        "process_group": (group["uid"], group["name"]),
        "collective_seq_id": operation.get("seq", 0),
        "p2p_seq_id": p2p_number if is_p2p else 0,
        "op_id": operation["number"],
        "profiling_name": f"{group['backend']}:{name}",
        "time_created_ns": operation["submitted_ns"],
        "input_sizes": input_sizes,
        "input_dtypes": input_dtypes,
        "output_sizes": output_sizes,
        "output_dtypes": output_dtypes,
        "state": state_of(operation),
        "time_discovered_started_ns": started,
        "time_discovered_completed_ns": ended,
        "duration_ms": (ended - started) / 1e6 if ended and started else None,
        "retired": ended is not None,
        "timeout_ms": 0,
        "is_p2p": is_p2p,
        "frames": [{"name": operation.get("label", ""),
                    "filename": "distwrap", "line": 0}],
    }


def in_order(operations):
    """Numbers tell the order within a group, times between groups."""
    latest, timed = {}, []
    for operation in operations:
        group = operation["group"]
        latest[group] = max(latest.get(group, 0), operation["submitted_ns"])
        timed.append((latest[group], operation))
    return [operation for _, operation in sorted(timed, key=lambda one: one[0])]


def convert(recording):
    """One rank's recording as what PyTorch's loader unpickles."""
    groups = {group["group"]: group for group in recording["groups"]}
    entries, p2p = [], {}
    status = {group["uid"]: {"last_enqueued_collective": 0,
                             "last_started_collective": 0,
                             "last_completed_collective": 0}
              for group in groups.values()}
    for operation in in_order(recording["operations"]):
        group = groups.get(operation["group"])
        if group is None:  # the group ended long ago
            continue
        uid, seq = group["uid"], operation.get("seq", 0)
        p2p[uid] = p2p.get(uid, 0) + (seq == 0)
        entries.append(entry_of(operation, group, len(entries), p2p[uid]))
        last = status[uid]
        last["last_enqueued_collective"] = max(
            last["last_enqueued_collective"], seq)
        if "started_ns" in operation:
            last["last_started_collective"] = max(
                last["last_started_collective"], seq)
        if operation["state"] == "done":
            last["last_completed_collective"] = max(
                last["last_completed_collective"], seq)
    return {
        "version": VERSION,
        "pg_config": {group["uid"]: {"name": group["uid"],
                                     "desc": group["name"],
                                     "ranks": json.dumps(group["ranks"])}
                      for group in groups.values()},
        "pg_status": status,
        "entries": entries,
    }


def read(path):
    try:
        recording = json.loads(path.read_text(encoding="utf-8"))
        if recording["format"] != "distwrap recording":
            raise ValueError("it is not a recording")
        if recording["version"] != 1:
            raise ValueError(f"it is of version {recording['version']}")
        return recording
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"fr_export: {path} is left out: {error}", file=sys.stderr)
        return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="Then: torchfrtrace OUT --prefix rank_")
    parser.add_argument("recordings", type=pathlib.Path,
                        help="folder of recordings")
    parser.add_argument("out", type=pathlib.Path, help="folder to write to")
    typed = parser.parse_args()
    found = [read(path) for path in sorted(typed.recordings.glob("*.json"))]
    found = [recording for recording in found if recording is not None]
    if not found:
        print(f"fr_export: {typed.recordings} has no recordings",
              file=sys.stderr)
        return 1
    newest = max(found, key=lambda recording: recording["time_ns"])["job"]
    typed.out.mkdir(parents=True, exist_ok=True)
    for recording in found:
        if recording["job"] != newest:
            continue
        with open(typed.out / f"rank_{recording['rank']}", "wb") as file:
            pickle.dump(convert(recording), file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
