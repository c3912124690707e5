// Long names lose what they have in common, and keep what distinguishes them: as tests/render/test_elision.py has it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { elided, Elision } from "../../fastprof/viewer/static/elision.js";

const PATH = "jit(train_step)/jit(main)/transpose(jvp(Model))";
const SCOPES = [1, 12].flatMap((number) => ["attention/dot", "mlp/dot"].map((op) => `${PATH}/layer_${number}/${op}`));
const INDEXES = [0, 1, 2];

test("what distinguishes names stays", () => {
  const cases = [
    [SCOPES, 26, ["…/layer_1/attention/dot", "…/layer_1/mlp/dot", "…/layer_12/attention/dot", "…/layer_12/mlp/dot"]],
    [["short", ...SCOPES.slice(0, 2)], 26, ["short", "…/layer_1/attention/dot", "…/layer_1/mlp/dot"]],
    [["a".repeat(12) + "b".repeat(12)], 9, ["aaaa…bbbb"]],
    [["void_gemm_kernel_x", "void_gemm_kernel_y"], 9, ["…kernel_x", "…kernel_y"]],
    [
      INDEXES.map((at) => "a".repeat(30) + at + "b".repeat(30)),
      21,
      INDEXES.map((at) => `…${"a".repeat(10)}${at}${"b".repeat(8)}…`),
    ],
    [["x".repeat(20), "x".repeat(20)], 8, ["xxxx…xxx", "xxxx…xxx"]],
    [["é🙂".repeat(9)], 6, ["é🙂…🙂"]], // no half of a letter
    [["a\u202eb"], 20, ["a\\u202eb"]],
  ];
  for (const [texts, letters, shown] of cases) assert.deepEqual(elided(texts, letters), shown);
});

test("names of other rows than the first are cut too", () => {
  const elision = new Elision(SCOPES, 26);
  assert.equal(elision.cut(`${PATH}/layer_7/norm`), "…/layer_7/norm");
  assert.equal(elision.cut(`another/${"x".repeat(40)}`), "another/xxxxx…xxxxxxxxxxxx");
});

test("no two names look alike, whatever the width of letters", () => {
  const names = Array.from({ length: 40 },
    (_, at) => `${PATH}/body/${"fusion".repeat(9)}.${at}.clone.${"t".repeat(36)}`);
  for (const [limit, wide] of [[40, 1], [240, 7.25], [600, 7.25]]) {
    const width = (text) => text.length * wide;
    const elision = new Elision(names, limit, width);
    const shown = names.map((name) => elision.cut(name));
    assert.equal(new Set(shown).size, 40);
    assert.ok(shown.every((text) => width(text) <= limit));
  }
});

test("a name of a megabyte is measured by its ends", () => {
  let letters = 0;
  const width = (text) => {
    letters += text.length;
    return text.length;
  };
  const elision = new Elision([`a${"b".repeat(1_000_000)}`, `c${"b".repeat(1_000_000)}`], 20, width);
  assert.equal(elision.cut(`d${"b".repeat(1_000_000)}`), `d${"b".repeat(9)}…${"b".repeat(9)}`);
  assert.ok(letters < 50_000);
});
