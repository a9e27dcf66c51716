// The page of one run, or of several compared: its header, then sections under their headings. It is drawn once; then
// only what changed is drawn again.
import { openTable } from "./content.mjs";
import { el, setText, svg } from "./elements.mjs";
import { barsView } from "./bars.mjs";
import { lineView } from "./curves.mjs";
import { fleetView } from "./fleet.mjs";
import { makeFrame, tableView, tilesView } from "./frames.mjs";
import { ganttView } from "./gantt.mjs";
import { graphView } from "./graph.mjs";
import { gridView } from "./grid.mjs";
import { logView } from "./log.mjs";

/** @type {Record<string, [() => View, (section: Section) => (string | null)[]]>} */
const KINDS = {
  bars: [barsView, (one) => [one.pick, one.row, ...one.parts, one.deadline, one.end]],
  fleet: [fleetView, (one) => [one.row, one.state, ...one.counts, ...one.parts, one.deadline, one.expected, one.arrival]],
  gantt: [ganttView, (one) => [one.row, one.start, one.end, one.colour, one.state]],
  graph: [graphView, (one) => [one.start, one.end, one.weight, ...one.details]],
  grid: [gridView, (one) => [one.row, one.x, one.value, one.state]],
  line: [lineView, (one) => [one.x, ...one.other_x, one.series, ...one.y, ...one.details]],
  log: [logView, (one) => [one.at, one.text]],
  table: [tableView, () => []],
};
const MOST_OF_THE_TIME = 0.1; // that one section may spend on being drawn

// Hatchings, so that nothing is told apart by colour alone.
const hatchings = () =>
  svg(
    "svg",
    { class: "hatchings", width: 0, height: 0, "aria-hidden": "true" },
    [["bad", 45], ["upload", -45], ["working", 90]].map(([name, angle]) =>
      svg(
        "pattern",
        { id: `hatch-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` },
        svg("rect", { class: `hatch-${name}-back`, width: 6, height: 6 }),
        svg("path", { class: `hatch-${name}-line`, d: "M0 0V6" }),
      ),
    ),
  );

const makeHeader = () => {
  const [over, title, state, about] = [el("p", { class: "over" }), el("h1"), el("span"), el("span")];
  const notices = el("ul", { class: "notices", role: "status" });
  return {
    element: el("header", {}, over, title, el("p", {}, state, " ", about), notices),
    /** @param {PageContent} content */
    update(content) {
      const standing = {
        running: ["running", "running"],
        ended: ["done", `finished: ${content.ended}`],
        interrupted: ["open", "not finished: no end was recorded"],
      }[content.state];
      setText(over, `Paceline ${content.kind}`);
      setText(title, content.name);
      setText(state, standing[1]);
      state.className = `state ${standing[0]}`;
      setText(about, content.about);
      if (notices.textContent !== content.notices.join("")) {
        notices.replaceChildren(...content.notices.map((one) => el("li", {}, one)));
      }
    },
  };
};

const keyOf = (section) => `${section.type} ${section.group} ${section.title} ${section.is_half}`;

const makeSection = (section) => {
  if (section.type === "tiles") return tilesView();
  const [makeView, shownColumns] = KINDS[section.type];
  return makeFrame(section, makeView(), shownColumns);
};

/** One section, and what it was last drawn from; one that is out of sight waits until it is seen. */
const makePart = (section, drawLater) => {
  const view = makeSection(section);
  let [isSeen, drawn, freeAt] = [true, [], 0];
  const part = {
    element: view.element,
    setSeen(is) {
      isSeen = is;
      if (is) drawLater();
    },
    update(next, page) {
      const { tables, state } = page.content;
      const from = [next, tables[next.table], tables[next.nodes], state];
      if (from.every((one, index) => one === drawn[index]) || (drawn.length && !isSeen)) return;
      const start = performance.now();
      if (start < freeAt) return void setTimeout(drawLater, freeAt - start);
      view.update(next, openTable(tables[next.table]), page);
      drawn = from;
      freeAt = performance.now() + (performance.now() - start) / MOST_OF_THE_TIME;
    },
  };
  return part;
};

/**
 * Make a page.
 * @param {Element} root
 * @param {() => number} now  the run's clock
 * @param {() => void} drawLater  called when the page should be drawn again
 */
export const makePage = (root, now, drawLater) => {
  const [header, body] = [makeHeader(), el("div")];
  root.replaceChildren(header.element, hatchings(), body);
  const parts = new Map();
  let arranged = "";
  const seen = new IntersectionObserver(
    (entries) => {
      const isSeen = new Map(entries.map((one) => [one.target, one.isIntersecting]));
      for (const { element, setSeen } of parts.values()) if (isSeen.has(element)) setSeen(isSeen.get(element));
    },
    { rootMargin: "300px" },
  );

  const arrange = (sections) => {
    body.replaceChildren();
    /** @type {[string | null, HTMLElement, HTMLElement | null]} */
    let [group, holder, pair] = [null, body, null];
    for (const section of sections) {
      if (section.group !== group) {
        group = section.group;
        holder = group ? el("section", {}, el("h2", {}, group)) : body;
        if (group) body.append(holder);
        pair = null;
      }
      if (!section.is_half) pair = null;
      else if (!pair) holder.append((pair = el("div", { class: "two" })));
      (pair ?? holder).append(parts.get(keyOf(section)).element);
    }
  };
  return {
    /** @param {PageContent} content */
    draw(content) {
      document.title = `${content.name} – Paceline ${content.kind}`;
      header.update(content);
      const sections = content.sections.filter((section) => content.tables[section.table]);
      const keys = new Set(sections.map(keyOf));
      for (const [key, part] of parts) if (!keys.has(key)) (seen.unobserve(part.element), parts.delete(key));
      for (const section of sections) {
        if (parts.has(keyOf(section))) continue;
        const part = makePart(section, drawLater);
        parts.set(keyOf(section), part);
        seen.observe(part.element);
      }
      if (arranged !== [...keys].join("\n")) arrange(sections);
      arranged = [...keys].join("\n");
      for (const section of sections) parts.get(keyOf(section)).update(section, { content, now });
    },
  };
};
