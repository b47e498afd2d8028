#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo must not say yes to an answer that is missing, wrong, or came from somewhere else."""
import pathlib
import unittest

import numpy as np

import demo

LOGITS = np.linspace(-3, 4, 10).astype(np.float32)[[3, 1, 9, 0, 2, 5, 4, 6, 7, 8]]


def answer(logits=LOGITS, backend="webgpu", cpu_steps=()):
    probabilities = demo.softmax(logits.astype(np.float64))
    order = np.argsort(-logits)
    return {"backend": backend, "cpu_steps": list(cpu_steps), "ms": {"first": 3.0},
            "results": [{"index": int(k), "label": f"class {k}", "logit": float(logits[k]), "probability": float(probabilities[k])}
                        for k in order]}


class Verdict(unittest.TestCase):
    def judge(self, answers, resized=False, warm=1.0, error=""):
        job = demo.Job("M", pathlib.Path("m.onnx"), pathlib.Path("l"), [pathlib.Path("a.png"), pathlib.Path("b.png")],
                       [LOGITS, LOGITS], resized)
        return demo.verdict(job, demo.Row("M", "native", "webgpu", answers, error, warm))

    def test_right_answers_agree(self):
        self.assertEqual(self.judge([answer(), answer()]), (True, "yes, 2 of 2 pictures"))
        self.assertTrue(self.judge([answer(), answer(LOGITS + 1e-5)])[0])

    def test_a_wrong_answer_is_named(self):
        swapped = LOGITS.copy()
        swapped[[0, 2]] = swapped[[2, 0]]
        agrees, text = self.judge([answer(), answer(swapped)])
        self.assertFalse(agrees)
        self.assertIn("b.png", text)
        self.assertFalse(self.judge([answer(), answer(swapped)], resized=True)[0])

    def test_a_small_error_counts_where_the_picture_is_exact(self):
        self.assertFalse(self.judge([answer(), answer(LOGITS * 1.001)])[0])
        self.assertTrue(self.judge([answer(), answer(LOGITS * 1.001)], resized=True)[0])

    def test_not_a_number_is_wrong(self):
        self.assertFalse(self.judge([answer(), answer(LOGITS * np.nan)])[0])
        self.assertFalse(self.judge([answer(), answer(LOGITS * np.nan)], resized=True)[0])

    def test_missing_answers_are_wrong(self):
        self.assertFalse(self.judge(None, error="exit 4: no adapter")[0])
        self.assertFalse(self.judge([])[0])
        self.assertFalse(self.judge([answer()])[0])
        self.assertFalse(self.judge([answer(), answer()], warm=None)[0])
        short = answer()
        short["results"] = short["results"][:3]
        self.assertFalse(self.judge([answer(), short])[0])

    def test_another_backends_answer_is_wrong(self):
        self.assertEqual(self.judge([answer(backend="cpu"), answer()]), (False, "answered on cpu"))
        self.assertFalse(self.judge([answer(cpu_steps=[{"node": "n"}]), answer()])[0])


if __name__ == "__main__":
    unittest.main()
