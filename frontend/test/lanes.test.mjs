// Devices as lanes, and their order.
import assert from "node:assert/strict";
import { test } from "node:test";

import { arrangeLanes, countStates, laneOf, secondsShown } from "../../src/paceline/report/web/lanes.mjs";

const section = {
  ...{ row: "learner", opened: "opened", doing: "doing", since: "since", state: "state", parts: ["download", "train"] },
  ...{ deadline: "deadline", expected: "expected", arrival: "arrival", bad: ["late"] },
};
const row = (fields) => ({ learner: "pi", opened: 100, state: "training", deadline: 10, download: 2, train: 0, ...fields });
const lane = (fields) => laneOf(section, row(fields), 107);

test("what goes on reaches up to now, and what is over does not", () => {
  assert.deepEqual(lane({ doing: "train", since: 2 }).spans, [
    { part: "download", start: 0, end: 2 },
    { part: "train", start: 2, end: 7 },
  ]);
  assert.deepEqual(lane({ train: 3, arrival: 5 }).spans[1], { part: "train", start: 2, end: 5 });
  assert.deepEqual([lane({ doing: "train" }).isRunning, lane({}).isRunning], [true, false]);
});

test("a clock that is behind the last event makes no span of less than nothing", () => {
  const [, train] = laneOf(section, row({ doing: "train", since: 2 }), 101).spans;
  assert.deepEqual(train, { part: "train", start: 2, end: 2 });
});

const fleet = [
  lane({ learner: "b-10", arrival: 5 }),
  lane({ learner: "b-2", expected: 9 }),
  lane({ learner: "a", state: "late", arrival: 1 }),
  lane({ learner: "c", arrival: 4, deadline: 5 }),
];
const usual = { sort: "slowest", isTroubleFirst: false, text: "" };
const order = (choice) => arrangeLanes(fleet, { ...usual, ...choice }).map((one) => one.name);

test("the slowest are those nearest to their deadline or past it, and trouble may come first", () => {
  assert.deepEqual(order({}), ["b-2", "c", "b-10", "a"]);
  assert.deepEqual(order({ isTroubleFirst: true }), ["a", "b-2", "c", "b-10"]);
  assert.deepEqual(order({ sort: "name" }), ["a", "b-2", "b-10", "c"]);
  assert.deepEqual(order({ sort: "state" })[0], "a");
  assert.deepEqual(order({ text: "b-" }), ["b-2", "b-10"]);
  assert.deepEqual(order({ text: "late" }), ["a"]);
});

test("states are counted, trouble first", () => {
  assert.deepEqual(countStates(fleet), [
    { state: "late", isBad: true, count: 1 },
    { state: "training", isBad: false, count: 3 },
  ]);
});

test("one very late device does not make the others unreadable", () => {
  assert.equal(secondsShown(fleet), 10 * 1.04);
  assert.equal(secondsShown([lane({ arrival: 1000 })]), 15 * 1.04);
  assert.equal(secondsShown([]), 1);
});
