// What figures draw, before it is drawn. Modules make elements only when they are called, but some look at the window.
import assert from "node:assert/strict";
import { test } from "node:test";

const nothing = () => ({ setAttribute() {}, append() {}, removeAttribute() {}, addEventListener() {} });
globalThis.document = /** @type {any} */ ({ createElement: nothing, createElementNS: nothing, addEventListener() {} });
globalThis.window = /** @type {any} */ ({ addEventListener() {}, innerWidth: 1200 });

const { curvesOf, limits } = await import("../../src/paceline/report/web/curves.mjs");
const { arrowPath, placeNodes } = await import("../../src/paceline/report/web/graph.mjs");
const { cellsOf } = await import("../../src/paceline/report/web/grid.mjs");
const { addressOf, arrangeRuns } = await import("../../src/paceline/report/web/runs.mjs");

const column = { x: { title: "round", kind: "count" }, y: { title: "accuracy", kind: "ratio" } };
const rows = [
  { x: 2, at: 5, y: 0.5, run: "b" },
  { x: 1, at: 7, y: 0.25, run: "b" },
  { x: 1, at: null, y: 0.125, run: "a" },
  { x: 2, at: 3, y: null, run: "a" },
];
const line = { x: "x", y: ["y"], series: "run", bold: null, shape: "line", deadline: null };

test("a run has a curve of its own, in order along the axis that was chosen", () => {
  const curves = curvesOf(line, { column, rows }, "x");
  assert.deepEqual(curves.map((curve) => [curve.name, curve.rows.map((row) => row.y)]), [["b", [0.25, 0.5]], ["a", [0.125]]]);
  const overTime = curvesOf(line, { column, rows }, "at");
  assert.deepEqual(overTime.map((curve) => [curve.name, curve.rows.map((row) => row.y)]), [["b", [0.5, 0.25]]]);
});

test("the curve that is bold is drawn last", () => {
  assert.deepEqual(curvesOf({ ...line, bold: "b" }, { column, rows }, "x").map((curve) => curve.name), ["a", "b"]);
});

test("ratios are shown within 0 and 1, and the deadline always", () => {
  const curves = curvesOf(line, { column, rows }, "x");
  const [low, high] = limits(line, { column, rows }, curves);
  assert.ok(low >= 0 && low < 0.125 && high > 0.5 && high <= 1.02);
  assert.ok(limits({ ...line, deadline: 0.9 }, { column, rows }, curves)[1] > 0.9);
  assert.deepEqual(limits({ ...line, shape: "columns" }, { column, rows }, curves)[0], 0);
});

test("nodes of a level are under each other, others in a ring", () => {
  const { places } = placeNodes(["a", "b", "trunk"], [0, 0, 2], 600);
  assert.deepEqual([places.get("a").x, places.get("b").x, places.get("trunk").x], [150, 150, 450]);
  assert.ok(places.get("a").y < places.get("trunk").y && places.get("trunk").y < places.get("b").y);
  const ring = placeNodes(["n", "e", "s", "w"], null, 600).places;
  assert.deepEqual([...ring.values()].map((place) => place.side), [0, 1, 0, -1]);
});

test("an arrow begins and ends outside of its nodes", () => {
  const { path } = arrowPath({ x: 0, y: 0, side: 0 }, { x: 100, y: 0, side: 0 }, { width: 20, height: 20 }, 0);
  const numbers = path.match(/-?\d+\.\d/g).map(Number);
  assert.ok(numbers[0] >= 10 && numbers[numbers.length - 2] <= 90);
});

test("a cell that stands for several shows the worst of them", () => {
  const grid = { x: "x", row: "run", value: "y", state: "state", bad: ["late"] };
  const many = Array.from({ length: 240 }, (_, index) => ({ x: index, run: "a", y: 1, state: index === 7 ? "late" : "ok" }));
  const { cells, step, numColumns } = cellsOf(grid, many);
  assert.deepEqual([step, numColumns, cells.get("3 a").x], [2, 120, 7]);
});

test("runs are found by what is said of them, sorted, and compared by their address", () => {
  const runs = [
    { name: "run-10", loss: null, error: "line 3 is not JSON" },
    { name: "run-2", loss: 0.5, about: "sync" },
    { name: "run-1", loss: 0.25, about: "DAB" },
  ].map((run) => /** @type {any} */ (run));
  const names = (choice) => arrangeRuns(runs, { text: "", column: "", direction: 1, ...choice }).map((run) => run.name);
  assert.deepEqual(names({}), ["run-10", "run-2", "run-1"]);
  assert.deepEqual(names({ text: "json" }), ["run-10"]);
  assert.deepEqual(names({ column: "name" }), ["run-1", "run-2", "run-10"]);
  assert.deepEqual(names({ column: "loss", direction: -1 }), ["run-2", "run-1", "run-10"]);
  assert.equal(addressOf(["a b", "c&d"]), "?runs=a%20b,c%26d");
});
