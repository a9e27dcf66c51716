// Values as they are written.
import assert from "node:assert/strict";
import { test } from "node:test";

import { write, writeOnAxis } from "../../src/paceline/report/web/format.mjs";

const column = (kind, unit = "") => ({ kind, unit });

test("values are written by their kind, with their unit", () => {
  assert.equal(write(null, column("count")), "–");
  assert.equal(write(1234567, column("count")), "1,234,567");
  assert.equal(write(83.14, column("seconds")), "83.1 s");
  assert.equal(write(12_000, column("seconds")), "3 h 20 min");
  assert.equal(write(-0.031, column("lateness")), "3.1 % early");
  assert.equal(write(1_250_000, column("bytes", "/s")), "1.25 MB/s");
  assert.equal(write(7.2, column("joules")), "2 mWh");
  assert.equal(write("late", column("number")), "late");
});

test("axes have short labels", () => {
  assert.equal(writeOnAxis(0.5, column("ratio")), "50 %");
  assert.equal(writeOnAxis(600, column("seconds")), "10 min");
  assert.equal(writeOnAxis(12_500, column("count")), "12.5 k");
});
