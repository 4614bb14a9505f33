#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compression_curve.py [options] MODEL.gguf --text PROSE.txt
       compression_curve.py --stored FOLDER... [--point ...] [--out FOLDER]

What compression costs over what it saves: compresses a model of float weights with every combination of --modes, --ratios
and --sensitivities, and measures how far each is from the model itself on a text. Writes into the folder --out:

    runs.json   every finished run; those are not done again, so that it may be interrupted (--fresh forgets them)
    curve.md    the same as a table
    curve.svg   divergence over megabytes, a line for each mode and sensitivity (needs matplotlib, see requirements.txt)

With --stored nothing is run: table and picture are made of all that the runs.json of those folders hold. Runs that differ
in more than mode, ratio and sensitivity, as those of two models, have a table and an axis each.

Ratio and sensitivity mean nothing to the modes of 8 bits, nor a sensitivity to a ratio of 1: those are run once. Points of
other engines, measured elsewhere on the same text, are put beside; a model's name in front has them in its part only:

    compression_curve.py model-f16.gguf --text test.txt --calibration train.txt --ratios 0.6,0.8,0.9,1
                         --point 'NNCF=91.1:0.169'
    compression_curve.py --stored curve-a curve-b --point 'a-f16.gguf:NNCF=91.1:0.169' --out both
"""

import argparse
import itertools
import json
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = "default"  # a sensitivity that is left to the command
MEGA = 1e6


def fail(message):
    sys.exit(f"compression_curve.py: {message}")


# ---- what to run -----------------------------------------------------------------------------------------------------


def settings_of(options):
    """The combinations that differ, in the order of the options: (mode, ratio, sensitivity); None where it means nothing."""
    found = {}
    for mode, sensitivity, ratio in itertools.product(options.modes, options.sensitivities, options.ratios):
        if mode.startswith("int8"):
            ratio = sensitivity = None
        elif ratio == 1:
            sensitivity = None
        found[mode, ratio, sensitivity] = True
    return list(found)


def file_mark(path):
    """Enough to see that a file is another one."""
    status = os.stat(path)
    return f"{Path(path).name} {status.st_size} {status.st_mtime_ns}"


def key_of(options, setting):
    """What a run depends on."""
    mode, ratio, sensitivity = setting
    key = {"model": file_mark(options.model), "text": file_mark(options.text), "against": file_mark(options.against)}
    key |= {"ctx": options.ctx, "chunks": options.chunks, "mode": mode, "group_size": options.group_size}
    key |= {"ratio": ratio, "sensitivity": sensitivity}
    if options.calibration:
        key["calibration"] = [file_mark(options.calibration), options.samples, options.sample_tokens]
    return json.dumps(key, sort_keys=True)


# ---- running ---------------------------------------------------------------------------------------------------------


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        fail(f"{shlex.join(map(str, command))} ended with {done.returncode}: {last}")
    return json.loads(done.stdout)


def compress(options, setting, out):
    mode, ratio, sensitivity = setting
    command = [options.postern, "compress", options.model, out, "--force", "--json", "--mode", mode]
    command += ["--group-size", options.group_size]
    if ratio is not None:
        command += ["--ratio", ratio]
    if sensitivity not in (None, DEFAULT):
        command += ["--sensitivity", sensitivity]
    if options.calibration:
        command += ["--calibration", options.calibration, "--samples", options.samples]
        command += ["--sample-tokens", options.sample_tokens]
    if options.threads:
        command += ["--threads", options.threads]
    return run_json(command)


def measure(options, model):
    command = [options.postern, "perplexity", model, "--text", options.text, "--against", options.against, "--json"]
    command += ["--ctx", options.ctx, "--chunks", options.chunks]
    if options.threads:
        command += ["--threads", options.threads]
    return run_json(command)


def run(options, setting):
    out = options.out / "model-under-test.gguf"
    try:
        report, quality = compress(options, setting, out), measure(options, out)
    finally:
        out.unlink(missing_ok=True)
    mode, ratio, sensitivity = setting
    numbers = {name: report[name] for name in ("bytes_after", "bits_per_weight", "ratio_reached", "seconds")}
    numbers |= {name: quality[name] for name in ("scored_tokens", "kl", "kl_stderr", "same_top", "ppl_ratio")}
    return {"mode": mode, "ratio": ratio, "sensitivity": sensitivity, **numbers}


def save(path, runs):
    """Under another name first: what is there stays whole when this is interrupted."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def run_all(options):
    """{key: run} of what is asked for."""
    path = options.out / "runs.json"
    runs = load(path) if path.exists() and not options.fresh else {}
    settings = settings_of(options)
    wanted = {}
    for number, setting in enumerate(settings, 1):
        key = key_of(options, setting)
        known = key in runs
        if not known:
            runs[key] = run(options, setting)
            save(path, runs)
        wanted[key] = runs[key]
        print(f"{number} of {len(settings)}: {name_of(runs[key])}, ratio {ratio_of(runs[key])}: "
              f"{runs[key]['bytes_after'] / MEGA:.1f} MB, divergence {runs[key]['kl']:.4f}"
              f"{' (was there)' if known else ''}", file=sys.stderr)
    return wanted


# ---- reporting -------------------------------------------------------------------------------------------------------


def ratio_of(run):
    return "-" if run["ratio"] is None else f"{run['ratio']:g}"


def name_of(run):
    return run["mode"] if run["sensitivity"] is None else f"{run['mode']}, {run['sensitivity']}"


def studies_of(runs):
    """[(what the runs of a study have in common, those runs)] of {key: run}."""
    studies = {}
    for key, run in runs.items():
        common = {name: value for name, value in json.loads(key).items() if name not in run}
        studies.setdefault(json.dumps(common, sort_keys=True), (common, []))[1].append(run)
    return list(studies.values())


def name_in(mark):
    return mark.rsplit(" ", 2)[0]


def points_of(common, points):
    """(name, megabytes, divergence) of the points that belong to a study."""
    return [rest for model, *rest in points if model in (None, name_in(common["model"]))]


def markdown(common, runs, points):
    calibrated = "without calibration"
    if "calibration" in common:
        calibrated = "calibrated on {1} x {2} tokens".format(*common["calibration"])
    text = (
        f"{name_in(common['model'])}, groups of {common['group_size']}, {calibrated}; {runs[0]['scored_tokens']} tokens of "
        f"{common['chunks']} chunks of {common['ctx']} predicted. MB: 10^6 bytes of all tensors; KL: divergence from "
        f"{name_in(common['against'])} in nats per token; same first: how often both find the same token the most probable."
    )
    lines = [*textwrap.wrap(text, 120), ""]
    lines += ["| mode | sensitivity | ratio | MB | bits per weight | KL | same first | perplexity ratio | seconds |"]
    lines += ["| --- " * 9 + "|"]
    for run in runs:
        lines.append(
            f"| {run['mode']} | {run['sensitivity'] or '-'} | {ratio_of(run)} | {run['bytes_after'] / MEGA:.1f} "
            f"| {run['bits_per_weight']:.2f} | {run['kl']:.4f} +- {run['kl_stderr']:.4f} | {run['same_top']:.1%} "
            f"| {run['ppl_ratio']:.4f} | {run['seconds']:.1f} |"
        )
    lines += [f"| {name} | | | {megabytes:g} | | {kl:g} | | | |" for name, megabytes, kl in points_of(common, points)]
    return "\n".join(lines) + "\n"


def lines_of(runs):
    """{name: runs in order of size}: those of a mode whose sensitivity means nothing belong to every line of the mode."""
    lines = {}
    for run in runs:
        if run["sensitivity"] is not None:
            lines.setdefault(name_of(run), []).append(run)
    for run in runs:
        if run["sensitivity"] is None:
            own = [name for name in lines if name.startswith(f"{run['mode']}, ")] or [run["mode"]]
            for name in own:
                lines.setdefault(name, []).append(run)
    return {name: sorted(line, key=lambda run: run["bytes_after"]) for name, line in lines.items()}


def draw_study(axis, common, runs, points):
    modes, sensitivities = ([*dict.fromkeys(run[what] for run in runs)] for what in ("mode", "sensitivity"))
    for name, line in lines_of(runs).items():
        mode, _, sensitivity = name.partition(", ")
        axis.errorbar([run["bytes_after"] / MEGA for run in line], [run["kl"] for run in line],
                      yerr=[run["kl_stderr"] for run in line], label=name, elinewidth=0.8, capsize=2, markersize=4,
                      color=f"C{sensitivities.index(sensitivity or None) % 10}",
                      marker="osD^"[modes.index(mode) % 4], linestyle=("-", "--", ":", "-.")[modes.index(mode) % 4])
    for i, (name, megabytes, kl) in enumerate(points_of(common, points)):
        axis.plot(megabytes, kl, marker="*", markersize=11, linestyle="", color=f"C{(i + 6) % 10}", label=name)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.tick_params(labelsize=8, which="both")
    axis.set_xlabel("megabytes of all tensors")
    axis.set_ylabel(f"divergence from {name_in(common['against'])}, nats per token", fontsize=9)
    axis.set_title(f"{name_in(common['model'])}, groups of {common['group_size']}"
                   f"{', calibrated' if 'calibration' in common else ''}", fontsize=10)
    axis.grid(which="both", linewidth=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)


def draw(studies, points, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "postern"}  # small files, the same each time
    size = (8, 5) if len(studies) == 1 else (4.6 * len(studies), 4.4)
    figure, axes = plt.subplots(1, len(studies), figsize=size, layout="constrained", squeeze=False)
    for axis, (common, runs) in zip(axes[0], studies):
        draw_study(axis, common, runs, points)
    figure.savefig(path, metadata={"Date": None})


# ---- options ---------------------------------------------------------------------------------------------------------


def a_list(kind):
    def parse(text):
        return [kind(word) for word in text.split(",") if word]

    return parse


def a_point(text):
    name, _, numbers = text.rpartition("=")
    megabytes, _, kl = numbers.partition(":")
    model, colon, rest = name.partition(".gguf:")
    try:
        return (f"{model}.gguf", rest, float(megabytes), float(kl)) if colon else (None, name, float(megabytes), float(kl))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text}: a point is [MODEL.gguf:]NAME=MB:KL, as in NNCF=91.1:0.169"
        ) from None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", metavar="MODEL.gguf")
    parser.add_argument("--text", type=Path, metavar="FILE", help="what divergence is measured on")
    parser.add_argument("--against", type=Path, metavar="FILE", help="base, or its saved reference (default: MODEL)")
    parser.add_argument("--calibration", type=Path, metavar="FILE", help="another text, to round weights for")
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="of calibration (default: %(default)s)")
    parser.add_argument("--sample-tokens", type=int, default=512, metavar="N", help="of each (default: %(default)s)")
    parser.add_argument("--modes", type=a_list(str), default=["int4_sym"], metavar="M,...", help="(default: int4_sym)")
    parser.add_argument("--ratios", type=a_list(float), default=[0.6, 0.8, 0.9, 1.0], metavar="R,...",
                        help="(default: 0.6,0.8,0.9,1)")
    parser.add_argument("--sensitivities", type=a_list(str), default=[DEFAULT], metavar="S,...",
                        help=f"as --sensitivity of `postern compress` has them, or {DEFAULT}, its own choice")
    parser.add_argument("--group-size", type=int, default=128, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--ctx", type=int, default=512, metavar="N", help="tokens of a chunk (default: %(default)s)")
    parser.add_argument("--chunks", type=int, default=24, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--point", type=a_point, action="append", default=[], metavar="[MODEL.gguf:]NAME=MB:KL",
                        help="may be repeated")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="(default: the command's own choice)")
    parser.add_argument("--postern", default=str(ROOT / "build/release/postern"), metavar="COMMAND")
    parser.add_argument("--out", type=Path, default=ROOT / "build/compression-curve", metavar="FOLDER")
    parser.add_argument("--fresh", action="store_true", help="do finished runs again, as after a change of postern")
    parser.add_argument("--stored", type=Path, nargs="+", metavar="FOLDER", help="run nothing, draw what is there")
    parser.add_argument("--no-plot", action="store_true")
    options = parser.parse_args()
    if options.stored:
        if options.model:
            parser.error("--stored takes no model: its runs are done")
        return options
    if not (options.model and options.text):
        parser.error("there must be a model and --text, or folders of --stored runs")
    options.against = options.against or options.model
    for path in (options.model, options.text, options.against, options.calibration, Path(options.postern)):
        if path and not path.exists():
            parser.error(f"{path} is not there")
    if not (options.modes and options.ratios and options.sensitivities):
        parser.error("there must be a mode, a ratio and a sensitivity")
    return options


def stored_runs(folders):
    runs = {}
    for folder in folders:
        try:
            runs.update(load(folder / "runs.json"))
        except (OSError, TypeError, ValueError) as error:
            fail(f"{folder / 'runs.json'} does not hold the runs of this script: {error}")
    if not runs:
        fail("there is no run in those folders")
    return runs


def main():
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    studies = studies_of(stored_runs(options.stored) if options.stored else run_all(options))
    text = "\n".join(markdown(common, runs, options.point) for common, runs in studies)
    (options.out / "curve.md").write_text(text, encoding="utf-8")
    if not options.no_plot:
        draw(studies, options.point, options.out / "curve.svg")
    print(text, end="")


if __name__ == "__main__":
    main()
