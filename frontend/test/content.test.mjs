// Contents and their changes, as plain data.
import assert from "node:assert/strict";
import { test } from "node:test";

import { applyChange, clean, compareValues, describeRow, extent, openTable } from "../../src/paceline/report/web/content.mjs";

const columns = [
  { name: "who", title: "learner", kind: "text", unit: "" },
  { name: "seconds", title: "took", kind: "seconds", unit: "" },
];
const rows = [["a", 1], ["b", 2], ["c", 3]];
const other = { name: "other", columns, rows: [] };
const sections = [{ title: "Work" }, { title: "Rest", note: "old" }];
const content = { about: "a job", sections, tables: { work: { name: "work", columns, rows }, other } };

test("rows go from the front, then others are set by index, then the table is cut", () => {
  const change = { drop: 1, length: 3, rows: [[1, ["c", 4]], [2, ["d", 5]], [3, ["e", 6]]] };
  const changed = applyChange(content, { about: "another", tables: { work: change } });
  assert.deepEqual(changed.tables.work, { name: "work", columns, rows: [["b", 2], ["c", 4], ["d", 5]] });
  assert.equal(changed.about, "another");
  assert.equal(changed.tables.other, content.tables.other); // the same object: it need not be drawn again
  assert.equal(content.tables.work.rows.length, 3);
  const again = applyChange(content, { sections: [{ title: "Work" }, { title: "Rest", note: "new" }], tables: {} });
  assert.equal(again.sections[0], content.sections[0]);
  assert.equal(again.sections[1].note, "new");
});

test("a table can come, and one named null goes", () => {
  const come = { columns, drop: 0, length: 1, rows: [[0, ["z", 9]]] };
  const changed = applyChange(content, { tables: { work: null, new: come } });
  assert.deepEqual(Object.keys(changed.tables), ["other", "new"]);
  assert.deepEqual(changed.tables.new.rows, [["z", 9]]);
});

test("rows are opened once for each table", () => {
  const { work } = content.tables;
  assert.deepEqual(openTable(work).rows[1], { who: "b", seconds: 2 });
  assert.equal(openTable(work), openTable(work));
  assert.equal(describeRow({ who: "a", seconds: null }, ["who", "seconds"], openTable(work).column), "learner: a");
});

test("hidden characters are made visible wherever they are", () => {
  const hostile = { "a\u0000": ["\u001b[31m", { text: "\u202e<b>\u200b\u{e0001}" }, 1, null, true] };
  const cleaned = { "a\\x00": ["\\x1b[31m", { text: "\\u202e<b>\\u200b\\U000e0001" }, 1, null, true] };
  assert.deepEqual(clean(hostile), cleaned);
});

test("values that are not known are last, up as down", () => {
  const values = [2, null, 10, 1];
  assert.deepEqual([...values].sort((a, b) => compareValues(a, b, 1)), [1, 2, 10, null]);
  assert.deepEqual([...values].sort((a, b) => compareValues(a, b, -1)), [10, 2, 1, null]);
  assert.deepEqual(["n-10", "n-2"].sort((a, b) => compareValues(a, b, 1)), ["n-2", "n-10"]);
  assert.deepEqual([extent([3, 1, 2]), extent([])], [[1, 3], [0, 0]]);
});
