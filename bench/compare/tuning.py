# SPDX-License-Identifier: Apache-2.0
"""The staged `tune` program: winners into a private cache, in from a file, and out to one."""

import json
import os
import subprocess


class TuneError(Exception):
    """The program could not run at all, or answered what it should not."""


class Tuner:
    def __init__(self, stage, cache_dir, device, effort):
        self._program = os.path.join(stage, "bin", "tune")
        if not os.access(self._program, os.X_OK):
            raise TuneError(f"no program {self._program}: run scripts/gpu_stage.sh")
        self._cache_dir, self._device, self._effort = cache_dir, device, effort

    def tune(self, shapes, budget_s):
        """Tunes what has no winner yet; [text] of the problems that got none."""
        arguments = ["softmax", "--from", "-", "--device", self._device, "--effort", self._effort,
                     "--budget", f"{max(1, int(budget_s))}s", "--json"]
        lines = ["S,H,dtype", *(f"{s.rows},{s.cols},{s.dtype}" for s in shapes)]
        code, out, err = self._run(arguments, "\n".join(lines) + "\n")
        if code not in (0, 1):
            raise TuneError(f"tune {' '.join(arguments)}: status {code}: {err.strip()[-500:]}")
        try:
            problems = json.loads(out)["problems"]
        except (json.JSONDecodeError, KeyError) as error:
            raise TuneError(f"tune: its JSON cannot be read: {error}") from None
        return [f"{p['dtype']} {p['S']}x{p['H']}: {p['status']}: {p['reason']}"
                for p in problems if p["status"] not in ("tuned", "kept")]

    def import_winners(self, path):
        self._exchange("import", path)

    def export_winners(self, path):
        self._exchange("export", path)

    def _exchange(self, verb, path):
        code, _, err = self._run([verb, path])
        if code != 0:
            raise TuneError(f"tune {verb} {path}: status {code}: {err.strip()[-500:]}")

    def _run(self, arguments, problems=None):
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("ROWSMITH_") or k == "ROWSMITH_NVRTC"}
        done = subprocess.run([self._program, *arguments, "--cache", self._cache_dir],
                              env=environment, input=problems, capture_output=True, text=True,
                              check=False)
        return done.returncode, done.stdout, done.stderr
