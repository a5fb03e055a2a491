#!/usr/bin/env python3
"""Compares distwrap's shm with its peers, cell by cell.

usage: floors.py FILE...

FILE is what `distwrap-bench-peers --backend shm --vs openmpi,mpich,raw_gloo
--pin 1 --limit --json-file FILE` has written. Ratios are time / time in the same
round, median over the rounds with the 95 % interval of that median; against MPI
the faster one of a round counts. A cell is met when the interval's upper end is
within its floor, or the time is at most 1.5 times the machine's own limit in the
same run, to which the 15 ns of a facade are added. Exit code: 0 when all cells
are met, 1 when one is missed, 2 for files that cannot be read.
"""
import json
import math
import sys

KI, MI = 1024, 1024 * 1024
BANDS = ((4 * KI, "to 4 KiB"), (64 * KI, "8 to 64 KiB"),
         (4 * MI, "128 KiB to 4 MiB"), (math.inf, "above"))
REDUCTIONS = {"all_reduce", "reduce_scatter", "reduce", "reduce_scatter_v",
              "scan", "exscan"}
MESSAGES = {"send_recv", "ring"}
# By operation: the floor of time / time of the better MPI, one for each band.
MPI = {
    **dict.fromkeys(("all_reduce", "reduce_scatter", "reduce", "broadcast",
                     "barrier"), (0.7, 0.5, 0.55, 0.6)),
    **dict.fromkeys(("all_gather", "all_gather_v", "all_to_all",
                     "all_to_all_v", "gather", "gather_v", "scatter",
                     "scatter_v"), (0.7, 0.65, 0.75, 0.75)),
    **dict.fromkeys(MESSAGES, (0.8, 0.8, 0.8, 0.8)),
    # The name of all_to_all_v in the JSON lines.
    "alltoallv": (0.7, 0.7, 0.7, 0.7),
}
GLOO = (1 / 100, 1 / 15, 1 / 3.5, 1 / 2)
GLOO_LARGE_REDUCTION = 1 / 4
NEAR_LIMIT = 1.5
FACADE_US = 0.015
OVERSUBSCRIBED = {"mpi": 0.7, "gloo": 1 / 4}


def median_of(values):
    """Median with the interval that holds it in 95 of 100 runs."""
    values = sorted(values)
    n = len(values)
    middle = (values[(n - 1) // 2] + values[n // 2]) / 2
    # The ranks that bound the binomial interval.
    reach = 0.98 * math.sqrt(n)
    low = max(0, math.floor((n - 1) / 2 - reach))
    high = min(n - 1, math.ceil((n - 1) / 2 + reach))
    return middle, values[low], values[high]


def rounds(row):
    return row["rounds_lat_us_p50"]


def ratios(own, others):
    """Own time / the least of the others', round by round."""
    return [a / min(b) for a, b in zip(rounds(own), zip(*map(rounds, others)))]


def band_of(size):
    return next(i for i, (most, _) in enumerate(BANDS) if size <= most)


def floors_of(op, size, ranks):
    """(against MPI, against Gloo); None where there is none."""
    if ranks > 2:
        return OVERSUBSCRIBED["mpi"], OVERSUBSCRIBED["gloo"]
    band = band_of(size)
    mpi = MPI[op][band] if op in MPI else None
    if op == "broadcast" and size <= 8:
        mpi = 1.0
    if op in MESSAGES:
        return mpi, None
    if op in REDUCTIONS and band == 3:
        return mpi, GLOO_LARGE_REDUCTION
    return mpi, GLOO[band]


def cells(files):
    """Rows of one operation, size and type, by contestant."""
    found = {}
    for name in files:
        try:
            with open(name, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
        except (OSError, ValueError, KeyError) as error:
            print(f"floors.py: {name}: {error}", file=sys.stderr)
            raise SystemExit(2) from error
        for row in rows:
            key = (row["op"], row["ranks"], row["dtype"], row["bytes"])
            found.setdefault(key, {})[row["peer"]] = row
    return found


def judge(key, peers):
    op, ranks, dtype, size = key
    own = peers.get("distwrap/shm")
    if own is None:
        return None
    mpi_floor, gloo_floor = floors_of(op, size, ranks)
    mpis = [peers[p] for p in ("openmpi", "mpich") if p in peers]
    gloo = [peers[p] for p in ("raw_gloo",) if p in peers]
    limit = own.get("limit_us")
    if limit is not None:
        limit += FACADE_US
    near = limit is not None and own["lat_us_p50"] <= NEAR_LIMIT * limit
    result = {"op": op, "ranks": ranks, "dtype": dtype, "bytes": size,
              "p50_us": own["lat_us_p50"],
              "limits": own["lat_us_p50"] / limit if limit else None}
    met = True
    for name, floor, others in (("mpi", mpi_floor, mpis),
                                ("gloo", gloo_floor, gloo)):
        if not others:
            continue
        middle, _, high = median_of(ratios(own, others))
        result[name] = {"ratio": middle, "high": high, "floor": floor}
        if floor is not None and high > floor and not near:
            met = False
    result["met"] = met
    result["near"] = near
    return result


def size_text(size):
    if size >= MI:
        return f"{size // MI} MiB"
    return f"{size // KI} KiB" if size >= KI else f"{size} B"


def against_text(part):
    if part is None:
        return "-"
    floor = "" if part["floor"] is None else f" ({part['floor']:.2g})"
    return f"{part['ratio']:.2g} to {part['high']:.2g}{floor}"


def main(files):
    if not files or files[0].startswith("-"):
        print(__doc__.strip())
        return 0 if files and files[0] in ("-h", "--help") else 2
    results = [r for key, peers in cells(files).items()
               if (r := judge(key, peers)) is not None]
    print("| operation | size | us | of the limit | / better MPI (floor) "
          "| / Gloo (floor) | |\n| --- | --- | --- | --- | --- | --- | --- |")
    for r in results:
        limits = "-" if r["limits"] is None else f"{r['limits']:.2g}"
        verdict = ("" if r["met"] and not r["near"] else
                   "at the limit" if r["met"] else "missed")
        name = r["op"] + ("" if r["dtype"] == "float32" else " " + r["dtype"])
        name += "" if r["ranks"] == 2 else f", {r['ranks']} ranks"
        print(f"| {name} | {size_text(r['bytes'])} | {r['p50_us']:.3g} "
              f"| {limits} | {against_text(r.get('mpi'))} "
              f"| {against_text(r.get('gloo'))} | {verdict} |")
    missed = sum(not r["met"] for r in results)
    print(f"\n{len(results) - missed} of {len(results)} cells are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
