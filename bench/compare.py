#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compare.py [options] MODEL.gguf...

Runs postern and other engines on the same models in turns (A B A B ...), so that a slow moment of the machine falls on
all of them, and reports medians with the least and the greatest of the rounds. A run during which other processes took
more than a share --disturbed of the CPUs is done again, a few times at most. Writes into the folder --out:

    results.json   every single measurement, with machine and versions
    results.md     the same as a table
    results.svg, results.png   bars (needs matplotlib, see requirements.txt)

Another engine is any command that prints {"prefill": tokens/s, "decode": tokens/s} as its last line of JSON; in it
{model}, {prompt}, {gen}, {threads} and {depth} are replaced:

    compare.py model.gguf --peer-cmd 'llama.cpp=python3 bench/peer_llama_cpp.py {model} --prompt {prompt} --gen {gen}
                                      --threads {threads} --depth {depth}'
"""

import argparse
import datetime
import json
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("prefill", "decode")


# ---- the machine and the engines -------------------------------------------------------------------------------------


def first_line(pattern, path):
    """What follows the colon in the first line of a file that begins with the pattern; '' when there is none."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(pattern)), "")


def describe_machine(threads):
    flags = set((first_line("flags", "/proc/cpuinfo") or first_line("Features", "/proc/cpuinfo")).split())
    telling = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimddp", "i8mm", "sve")
    memory = first_line("MemTotal", "/proc/meminfo").split()
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": first_line("model name", "/proc/cpuinfo") or platform.machine(),
        "features": [flag for flag in telling if flag in flags],
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[0]) / 2**20, 1) if memory else None,
        "system": f"{platform.system()} {platform.release()}",
        "threads": threads,
    }


def last_object(text, command):
    """The last line of a command's output that is a JSON object."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    sys.exit(f"compare.py: no JSON object in what {shlex.join(command)} printed")


def busy_seconds():
    """Of all CPUs together since the system began, with what a hypervisor took away; None where it is not told."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class OthersClock:
    """The share of the CPUs that processes other than our children take."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.monotonic(), busy_seconds(), children.ru_utime + children.ru_stime

    def share(self):
        (start, busy, own), (end, busy_now, own_now) = self.begin, self.now()
        if busy is None:
            return 0.0
        return max(0.0, (busy_now - busy - (own_now - own)) / (end - start) / os.cpu_count())


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(f"compare.py: {shlex.join(command)} ended with {done.returncode}: {last}")
    return last_object(done.stdout, command)


class Postern:
    def __init__(self, options, precision):
        self.options, self.precision = options, precision
        self.name = "postern" if precision == "high" else f"postern ({precision})"
        if not os.access(options.postern, os.X_OK):
            sys.exit(f"compare.py: {options.postern} is not there: `make build` makes it, or name it with --postern")
        version = subprocess.run([options.postern, "--version"], capture_output=True, text=True, check=True).stdout
        self.about = {"version": version.split()[-1]}

    def measure(self, model):
        o = self.options
        command = [o.postern, "bench", model, "--json", "--repeat", "1", "--precision", self.precision]
        for name, value in (("prompt-tokens", o.prompt), ("gen-tokens", o.gen), ("threads", o.threads)):
            command += [f"--{name}", str(value)]
        if o.depth:
            command += ["--depth", str(o.depth)]
        result = run(command)
        self.about["kernels"] = result["kernels"]
        at_depth = result["depths"][0] if o.depth else result
        shares = {"prefill": at_depth["prefill"]["arithmetic_share"], "decode": at_depth["decode"]["bandwidth_share"]}
        return {**{part: at_depth[part]["tokens_per_s"] for part in PARTS}, "shares": shares}


class Peer:
    def __init__(self, options, text):
        name, equals, command = text.partition("=")
        if not equals or " " in name:  # the sign belongs to the command
            name, command = "", text
        self.options, self.command = options, shlex.split(command)
        self.name = name or Path(self.command[0]).name
        self.about = {}

    def measure(self, model):
        o = self.options
        values = {"model": model, "prompt": o.prompt, "gen": o.gen, "threads": o.threads, "depth": o.depth}
        result = run([word.format(**values) for word in self.command])
        self.about.update({key: str(result[key]) for key in ("version", "features") if key in result})
        return {part: result[part] for part in PARTS}


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure_undisturbed(engine, model, options):
    """A measurement with the share that other processes took: the least disturbed one of a few."""
    best = None
    for _ in range(1 + options.retries):
        others = OthersClock()
        sample = engine.measure(model)
        sample["others"] = round(others.share(), 3)
        if best is None or sample["others"] < best["others"]:
            best = sample
        if best["others"] <= options.disturbed:
            break
    return best


def measure_model(model, engines, options):
    """{engine: [measurement of each round]}"""
    samples = {engine.name: [] for engine in engines}
    for number in range(options.rounds):
        for engine in engines:
            sample = measure_undisturbed(engine, model, options)
            samples[engine.name].append(sample)
            rates = ", ".join(f"{part} {sample[part]:.1f}" for part in PARTS)
            print(f"{Path(model).stem} round {number + 1} of {options.rounds}: {engine.name}: {rates} "
                  f"(others took {sample['others']:.0%})", file=sys.stderr)
    return samples


def summary(samples, part):
    rates = [sample[part] for sample in samples]
    return statistics.median(rates), min(rates), max(rates)


# ---- reporting -------------------------------------------------------------------------------------------------------


def most_disturbed(report):
    samples = (sample for engines in report["models"].values() for rounds in engines.values() for sample in rounds)
    return max(sample["others"] for sample in samples)


def markdown(report):
    machine, settings = report["machine"], report["settings"]
    depth = f", {settings['depth']} tokens in the context before" if settings["depth"] else ""
    text = (
        f"{machine['cpu']} ({', '.join(machine['features'])}), {machine['threads']} threads on {machine['cpus']} CPUs, "
        f"{machine['memory_gib']} GiB, {machine['system']}, {machine['date']}; other processes took "
        f"at most {most_disturbed(report):.0%} of the CPUs. Prefill of {settings['prompt']} tokens, decode of "
        f"{settings['gen']}{depth}; tokens per second, median of {settings['rounds']} rounds taken in turns, in "
        "brackets the least and the greatest."
    )
    lines = [*textwrap.wrap(text, 120), ""]
    lines += [f"- {name}: {', '.join(about.values())}" for name, about in report["engines"].items()]
    names = list(report["engines"])
    first, others = names[0], names[1:]
    header = ["model", "", *names, *(f"{first} / {name}" for name in others)]
    lines += ["", f"| {' | '.join(header)} |", f"| {' | '.join(['---'] * len(header))} |"]
    for model, samples in report["models"].items():
        for part in PARTS:
            rates = {name: summary(samples[name], part) for name in names}
            cells = ["{:.1f} ({:.1f} to {:.1f})".format(*rates[name]) for name in names]
            ratios = [f"{rates[first][0] / rates[name][0]:.2f}" for name in others]
            lines.append(f"| {' | '.join([model, part, *cells, *ratios])} |")
    return "\n".join(lines) + "\n"


def draw(report, out):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names, models = list(report["engines"]), list(report["models"])
    width = 0.8 / len(names)
    figure, axes = plt.subplots(1, len(PARTS), figsize=(4.5 + 2.2 * len(models), 4.2), layout="constrained")
    for axis, part in zip(axes, PARTS):
        for i, name in enumerate(names):
            rates = [summary(report["models"][model][name], part) for model in models]
            medians = [median for median, _, _ in rates]
            spread = [[m - low for m, low, _ in rates], [high - m for m, _, high in rates]]
            places = [j + (i - (len(names) - 1) / 2) * width for j in range(len(models))]
            bars = axis.bar(places, medians, width * 0.92, yerr=spread, label=name,
                            error_kw={"elinewidth": 0.8, "capsize": 2})
            axis.bar_label(bars, [f"{m:.0f}" if m >= 100 else f"{m:.1f}" for m in medians], fontsize=8, padding=2)
        axis.set_xticks(range(len(models)), models)
        axis.set_title(f"{part}, tokens/s")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].legend(frameon=False)
    machine, settings = report["machine"], report["settings"]
    figure.suptitle(f"{machine['cpu']}, {machine['threads']} threads, {settings['prompt']} tokens read, "
                    f"{settings['gen']} written, {machine['date']}", fontsize=9)
    for suffix in ("svg", "png"):
        figure.savefig(out / f"results.{suffix}", dpi=144)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL.gguf")
    parser.add_argument("--postern", default=str(ROOT / "build/release/postern"), metavar="COMMAND")
    parser.add_argument("--precision", default="high", help="of postern; several, as in high,fast, are one engine each")
    parser.add_argument("--peer-cmd", action="append", default=[], metavar="[NAME=]COMMAND", help="may be repeated")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt", type=int, default=512, metavar="N", help="tokens of prefill (default: %(default)s)")
    parser.add_argument("--gen", type=int, default=128, metavar="N", help="tokens of decode (default: %(default)s)")
    parser.add_argument("--depth", type=int, default=0, metavar="N", help="tokens in the context before either")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench", metavar="FOLDER")
    parser.add_argument("--disturbed", type=float, default=0.05, metavar="SHARE", help="(default: %(default)s)")
    parser.add_argument("--retries", type=int, default=3, metavar="N", help="of a disturbed run (default: %(default)s)")
    parser.add_argument("--no-plot", action="store_true")
    return parser.parse_args()


def main():
    options = parse()
    engines = [Postern(options, precision) for precision in options.precision.split(",")]
    engines += [Peer(options, text) for text in options.peer_cmd]
    report = {
        "machine": describe_machine(options.threads),
        "settings": {key: getattr(options, key) for key in ("prompt", "gen", "depth", "rounds")},
    }
    report["models"] = {Path(model).stem: measure_model(model, engines, options) for model in options.models}
    report["engines"] = {engine.name: engine.about for engine in engines}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "results.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = markdown(report)
    (options.out / "results.md").write_text(text, encoding="utf-8")
    if not options.no_plot:
        draw(report, options.out)
    print(text, end="")


if __name__ == "__main__":
    main()
