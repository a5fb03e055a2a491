#!/usr/bin/env python3
"""Runs the program of faults and grades each error that it caught.

  grade.py PROGRAM [--seed N] [--family NAME] [--examples | --write-examples]

An error owes its reader five things: what, where, who, how long, next step.
Each fault says which of them apply and what has to be there. One that lacks
something costs a mark; anything below full marks is an exit code of 1.
--examples also holds tools/cli/info/examples.def, the lines that the pages in
docs/errors/ show, against what was printed; --write-examples writes them. Both
are of seed 1.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "tools/cli/info/examples.def"
MARKS = ("what", "where", "who", "how_long", "next")
LEAST_FAULTS = 40
# An error may come this much later than its limit, on a busy machine.
SLACK_S = 15
# People do not read longer lines.
MOST_CHARACTERS = 1000
# The fault that a page shows, where it is not the first one.
SHOWN = {
    "kAborted": "aborted_by_another_rank",
    "kCallMismatch": "mismatch_of_counts",
    "kPeerLost": "killed_rank_over_shm",
    "kTimedOut": "missing_rank",
}


def lacks(error, parts):
    """The parts that the line lacks."""
    return [f"'{part}' is not said" for part in parts
            if str(part) not in error["text"]]


def grade_what(error, expected):
    if error["reason"] != expected["reason"]:
        return [f"is {error['reason']}, not {expected['reason']}"]
    return lacks(error, [error["reason"], error["what"]] + expected["what"])


def grade_where(error, expected):
    where = expected["where"]
    problems = [f"{field} is {error[field]!r}, not {value!r}"
                for field, value in (("op", where["op"]),
                                     ("group", where["group"]))
                if error[field] != value]
    said = [where["op"]]
    if where["group"]:
        said.append(f'on "{where["group"]}"')
    if where["rank"] >= 0:
        if error["my_rank"] != where["rank"]:
            problems.append(f"my_rank is {error['my_rank']}")
        said.append(f"(rank {where['rank']} of {error['group_size']})")
    if where["numbered"]:
        if error["seq"] <= 0:
            problems.append("no sequence number")
        said.append(f"{where['op']} #{error['seq']}")
    return problems + lacks(error, said)


def grade_who(error, expected):
    who = expected["who"]
    problems = []
    if not who["ranks"]:
        problems.append("nobody is blamed")
    if sorted(error["ranks"]) != sorted(who["ranks"]):
        problems.append(f"ranks are {error['ranks']}, not {who['ranks']}")
    if not re.search(r"\branks? [\d, -]*\d", error["text"]):
        problems.append("the line names no rank")
    problems += lacks(error, [f"process {pid}" for pid in who["pids"]])
    if who["seen"]:
        for rank in who["ranks"]:
            seen = [one for one in error["seen"] if one["rank"] == rank]
            if not seen or not seen[0]["host"]:
                problems.append(f"what rank {rank} did, and where, is not said")
            else:
                problems += lacks(error, [f"on {seen[0]['host']})"])
    return problems


def grade_how_long(error, expected):
    how_long = expected["how_long"]
    limit, problems = how_long["limit"], []
    if abs(error["limit"] - limit) > 0.001:
        problems.append(f"the limit is {error['limit']} s, not {limit} s")
    if how_long["setting"] not in error["setting"]:
        problems.append(f"{how_long['setting']} is not said to change it")
    if limit and not error["elapsed"]:
        problems.append("how long it took is not said")
    if how_long["has_passed"] and \
            not limit * 0.9 <= error["elapsed"] <= limit + SLACK_S:
        problems.append(f"it came after {error['elapsed']} s")
    words = ["limit", error["setting"]]
    return problems + lacks(error, words + ["; after "] if limit else words)


def grade_next(error, expected):
    step, page = error["next_step"], error["page"]
    problems = []
    if not step:
        problems.append("there is none")
    if expected["next"] not in step:
        problems.append(f"'{expected['next']}' is not in '{step}'")
    if not error["text"].endswith(f". Next: {step}, page {page}"):
        problems.append("the line does not end with it and its page")
    if not (ROOT / f"docs/errors/{page}.md").is_file():
        problems.append(f"there is no page {page}")
    return problems


def grade(record):
    """{mark: problems} of those that apply."""
    error, expected = record["error"], record["expected"]
    if error["ok"]:
        return {"what": ["there was no error"]}
    marks = {mark: globals()[f"grade_{mark}"](error, expected)
             for mark in MARKS if mark in expected}
    text = error["text"]
    if not text.isprintable() or len(text) > MOST_CHARACTERS:
        marks["what"].append("it is not one readable line")
    return marks


def print_table(graded):
    """One line a fault; the problems of those that have some."""
    faults = collections.defaultdict(list)
    for record, marks in graded:
        faults[record["fault"]].append((record, marks))
    width = max(map(len, faults))
    print(f"{'fault':{width}}  errors  " + "  ".join(MARKS))
    for fault, errors in faults.items():
        row = []
        for mark in MARKS:
            found = [marks[mark] for _, marks in errors if mark in marks]
            row.append("-" if not found else
                       "ok" if not any(found) else "LACKS")
        cells = "  ".join(f"{cell:{len(mark)}}"
                          for cell, mark in zip(row, MARKS))
        print(f"{fault:{width}}  {len(errors):6}  {cells}")
        for record, marks in errors:
            problems = [f"{mark}: {problem}" for mark, list_ in marks.items()
                        for problem in list_]
            if problems:
                print("    " + record["error"]["text"])
            for problem in problems:
                print(f"      {problem}")
    return len(faults)


def masked(line):
    """The line without what differs from run to run."""
    line = re.sub(r"0x[0-9a-f]+", "0x", line)
    line = re.sub(r"(unix:)?/[^\s:;,']+", "PATH", line)
    line = re.sub(r"(process \d+ on) [^\s)]+", r"\1 HOST", line)
    line = re.sub(r"\d+(\.\d+)?(h|m?s|us)?([\dms.]*s)?", "N", line)
    # The times and signs by which others have noticed vary.
    line = re.sub(r"; after N\b|; cause: .*(?=\. Next: )", "", line)
    # The last call of a rank depends on the moment of the look.
    return re.sub(r"(; rank N \(process N on HOST\))[^;.(]*", r"\1", line)


def anywhere(line):
    """The line as it would be on a machine of the reader's."""
    line = re.sub(r"(process \d+ on) [^\s)]+", r"\1 hosta", line)
    line = re.sub(r"/[^\s:;,']*/(lib/distwrap/plugins)", r"/usr/\1", line)
    return re.sub(r"/[^\s:;,']*/faults_\w+/", "/tmp/", line)


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def examples_of(records):
    """{reason: lines}, that to be shown first."""
    lines = collections.defaultdict(list)
    for record in sorted(records, key=lambda record: record["fault"] != SHOWN.get(
            record["error"]["reason"])):
        lines[record["error"]["reason"]].append(record["error"]["text"])
    return lines


def check_examples(records, write):
    text = EXAMPLES.read_text(encoding="utf-8")
    written = {name: json.loads(line) for name, line in re.findall(
        r'^DW_EXAMPLE\((\w+), ("(?:[^"\\]|\\.)*")\)$', text, re.MULTILINE)}
    printed = examples_of(records)
    if write:
        head = text.split("DW_EXAMPLE(")[0].split("#undef")[0]
        rows = [f"DW_EXAMPLE({reason}, {quoted(anywhere(lines[0]))})\n"
                for reason, lines in sorted(printed.items())]
        EXAMPLES.write_text(head + "".join(rows) + "#undef DW_EXAMPLE\n",
                            encoding="utf-8")
        return []
    problems = [f"{reason}: no fault prints its example any more"
                for reason, line in written.items()
                if masked(line) not in map(masked, printed.get(reason, []))]
    return problems + [f"{reason}: has no example; --write-examples gives one"
                       for reason in printed if reason not in written]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--family")
    parser.add_argument("--examples", action="store_true")
    parser.add_argument("--write-examples", action="store_true")
    options = parser.parse_args()
    command = [options.program, str(options.seed)]
    if options.family:
        command.append(options.family)
    done = subprocess.run(command, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, check=False)
    graded = [(record, grade(record))
              for record in map(json.loads, done.stdout.splitlines())]
    faults = print_table(graded)
    marks = [problems for _, all_ in graded for problems in all_.values()]
    good = sum(1 for problems in marks if not problems)
    problems = []
    if done.returncode != 0:
        problems.append(f"the program ended with {done.returncode}")
    if not options.family and faults < LEAST_FAULTS:
        problems.append(f"{faults} faults, not {LEAST_FAULTS}")
    if options.examples or options.write_examples:
        problems += check_examples([record for record, _ in graded],
                                   options.write_examples)
    for problem in problems:
        print(problem)
    print(f"{faults} faults with {len(graded)} errors, seed {options.seed}: "
          f"{good} of {len(marks)} marks")
    return 0 if good == len(marks) and not problems else 1


if __name__ == "__main__":
    sys.exit(main())
