// The list of the runs in a folder: found, sorted, and up to eight of them compared.
import { ariaSort, compareValues, isKnown, nextSort } from "./content.mjs";
import { el, searchField, set, setText } from "./elements.mjs";
import { NONE, duration, percent, write } from "./format.mjs";

export const MAX_COMPARED = 8;

const STARTED = { dateStyle: /** @type {"medium"} */ ("medium"), timeStyle: /** @type {"short"} */ ("short") };
const numeric = (value) => (isKnown(value) ? write(value, { kind: "number", unit: "" }) : NONE);
// Servers write a moment as seconds since 1970 or as ISO 8601.
const dateOf = (at) => new Date(typeof at === "number" ? 1000 * at : at).toLocaleString("en-GB", STARTED);
const moment = (at) => (isKnown(at) ? dateOf(at) : NONE);
const isShare = (value) => isKnown(value) && value >= 0 && value <= 1;
const wholeMetric = ([name, value]) => `${name.replaceAll("_", " ")} ${isShare(value) ? percent(value) : numeric(value)}`;

/** @type {Record<string, {title: string, value: (run: RunEntry) => any, text?: (run: RunEntry) => string}>} */
const COLUMNS = {
  name: { title: "run", value: (run) => run.name },
  state: { title: "state", value: (run) => run.state },
  done: { title: "done", value: (run) => run.share_done },
  started: { title: "started", value: (run) => run.started_at, text: (run) => moment(run.started_at) },
  took: { title: "took", value: (run) => run.seconds, text: (run) => (isKnown(run.seconds) ? duration(run.seconds) : NONE) },
  loss: { title: "loss", value: (run) => run.loss, text: (run) => numeric(run.loss) },
  metrics: {
    title: "metrics",
    value: (run) => Object.values(run.metrics ?? {})[0],
    text: (run) => Object.entries(run.metrics ?? {}).map(wholeMetric).join(", ") || NONE,
  },
};

/**
 * Return the runs to list, in order.
 * @param {RunEntry[]} runs
 * @param {{text: string, column: string, direction: number}} choice
 */
export const arrangeRuns = (runs, { text, column, direction }) => {
  const said = (run) => [run.name, run.kind, run.about, run.state, run.ended, run.error].join("\n").toLowerCase();
  const found = runs.filter((run) => said(run).includes(text));
  if (!column) return found;
  const { value } = COLUMNS[column];
  return found.sort((a, b) => compareValues(value(a), value(b), direction));
};

/** @param {string[]} names */
export const addressOf = (names) => `?runs=${names.map(encodeURIComponent).join(",")}`;

/** A row of the list, kept for as long as its run is there. */
const makeRow = (name, onCheck) => {
  const check = el("input", { type: "checkbox", "aria-label": `Compare ${name}` });
  check.addEventListener("change", () => onCheck(name, check.checked));
  const span = (style) => el("span", { class: style });
  const [about, error, state, share] = ["about", "error", "state", "share"].map(span);
  const link = el("a", { href: addressOf([name]) }, name);
  const progress = el("progress", { max: 1, "aria-label": "done" });
  const written = Object.entries(COLUMNS).filter(([, { text }]) => text);
  const texts = Object.fromEntries(written.map(([key, { title }]) => [key, el("td", { "data-title": title })]));
  const first = el("th", { scope: "row" }, el("bdi", {}, link), about, error);
  const standing = [el("td", { class: "standing" }, state), el("td", { "data-title": "done" }, progress, share)];
  const element = el("tr", {}, el("td", { class: "check" }, check), first, standing, Object.values(texts));
  return {
    element,
    check,
    /** @param {RunEntry} run */
    update(run) {
      setText(about, [run.kind, run.about].filter(Boolean).join(" · "));
      setText(error, run.error ?? "");
      error.hidden = !run.error;
      setText(state, run.error ? "unreadable" : run.state === "ended" && run.ended ? run.ended : run.state);
      state.className = `state ${run.error ? "bad" : { running: "running", ended: "done" }[run.state] ?? "open"}`;
      progress.hidden = !isKnown(run.share_done);
      if (isKnown(run.share_done)) progress.value = run.share_done;
      setText(share, isKnown(run.share_done) ? percent(run.share_done) : NONE);
      for (const [key, cell] of Object.entries(texts)) setText(cell, COLUMNS[key].text(run));
    },
  };
};

/**
 * Make the list of runs.
 * @param {Element} root
 */
export const makeRuns = (root) => {
  const choice = { text: "", column: "", direction: 1 };
  const checked = new Set();
  const rows = new Map();
  /** @type {RunEntry[]} */
  let runs = [];
  const search = searchField("Search runs", (text) => {
    choice.text = text;
    draw();
  });
  const compare = el("button", { type: "button", class: "main" });
  compare.addEventListener("click", () => location.assign(addressOf([...checked])));
  const said = el("p", { class: "shown", role: "status" });
  const body = el("tbody");
  const headings = Object.entries(COLUMNS).map(([column, { title }]) => {
    const button = el("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      Object.assign(choice, nextSort(choice, column));
      draw();
    });
    return el("th", { scope: "col", "data-column": column }, button);
  });
  const head = el("tr", {}, el("th", { scope: "col", "aria-label": "Compare" }), headings);
  const table = el("div", { class: "scroll whole" }, el("table", { class: "runs" }, el("thead", {}, head), body));
  const header = el("header", {}, el("p", { class: "over" }, "Paceline"), el("h1", {}, "Runs"));
  root.replaceChildren(header, el("div", { class: "card" }, el("div", { class: "controls" }, search, compare), said, table));
  document.title = "Runs – Paceline";

  const check = (name, isChecked) => {
    if (isChecked) checked.add(name);
    else checked.delete(name);
    drawChecks();
  };
  const drawChecks = () => {
    for (const [name, row] of rows) {
      row.check.checked = checked.has(name);
      row.check.disabled = !row.check.checked && checked.size >= MAX_COMPARED;
    }
    compare.disabled = checked.size < 2;
    setText(compare, checked.size < 2 ? `Compare: choose 2 to ${MAX_COMPARED}` : `Compare ${checked.size} runs`);
  };
  const draw = () => {
    const names = new Set(runs.map((run) => run.name));
    for (const name of rows.keys()) if (!names.has(name)) (rows.delete(name), checked.delete(name));
    for (const run of runs) {
      if (!rows.has(run.name)) rows.set(run.name, makeRow(run.name, check));
      rows.get(run.name).update(run);
    }
    const found = arrangeRuns(runs, choice).map((run) => rows.get(run.name).element);
    // Elements that stay where they are keep their focus.
    const isSame = found.length === body.children.length && found.every((one, index) => one === body.children[index]);
    if (!isSame) body.replaceChildren(...found);
    for (const one of headings) set(one, { "aria-sort": ariaSort(choice, one.dataset.column) });
    setText(said, runs.length ? `${found.length} of ${runs.length} runs` : "No runs here yet.");
    drawChecks();
  };
  return {
    /** @param {RunEntry[]} given */
    draw(given) {
      runs = given;
      draw();
    },
  };
};
