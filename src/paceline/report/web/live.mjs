// Follows a server: takes its events into the content, and draws at most once per frame and never out of sight.
import { applyChange, clean } from "./content.mjs";
import { el, setText } from "./elements.mjs";
import { makePage } from "./page.mjs";
import { makeRuns } from "./runs.mjs";

const RETRY_MILLISECONDS = 3000; // after an answer that ended the stream; a lost connection is EventSource's to open again

/**
 * Return a function that has `draw` called at the next frame in which the page is in sight.
 * @param {() => void} draw
 */
export const onceAFrame = (draw) => {
  let [isDue, isAsked] = [false, false];
  const ask = () => {
    if (!isDue || isAsked || document.hidden) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isDue = isAsked = false;
      draw();
    });
  };
  document.addEventListener("visibilitychange", ask);
  return () => {
    isDue = true;
    ask();
  };
};

/**
 * @param {HTMLElement} root
 * @param {{stream: string, runs?: string}} boot
 */
export const follow = (root, boot) => {
  const connection = el("p", { class: "connection", role: "status" }, "Connecting …");
  const trouble = el("p", { class: "trouble", role: "alert", hidden: true });
  const isOfMany = boot.runs && new URLSearchParams(location.search).has("runs");
  const back = isOfMany ? el("nav", {}, el("a", { href: location.pathname }, "‹ All runs")) : null;
  const main = el("div");
  root.append(...[back, connection, trouble, main].filter(Boolean));

  /** @type {PageContent | null} */
  let content = null;
  /** @type {RunEntry[] | null} */
  let runs = null;
  let [receivedAt, isConnected] = [0, false];
  /** @type {{draw: (content: any) => void} | undefined} */
  let view;

  // The run's clock goes on between messages, but not while nothing is known of the run.
  let frozenAt = 0;
  const now = () => {
    const isGoing = content?.state === "running" && content.clock === "real";
    return content.at + (isGoing ? ((isConnected ? performance.now() : frozenAt) - receivedAt) / 1000 : 0);
  };
  const drawLater = onceAFrame(() => {
    const isLost = !isConnected && (!content || content.state === "running");
    setText(connection, isConnected || !isLost ? "" : content || runs ? "Connection lost, trying again …" : "Connecting …");
    connection.hidden = !connection.textContent;
    if (!content && !runs) return;
    view ??= content ? makePage(main, now, drawLater) : makeRuns(main);
    view.draw(content ?? runs);
    document.documentElement.classList.add("drawn");
  });
  const receive = (take) => (event) => {
    take(clean(JSON.parse(event.data)));
    receivedAt = performance.now();
    trouble.hidden = true;
    drawLater();
  };
  const connect = (isOn) => {
    if (isConnected && !isOn) frozenAt = performance.now();
    isConnected = isOn;
    drawLater();
  };
  const openAgain = async () => {
    const asked = fetch(location.pathname, { method: "HEAD", headers: { accept: "text/html" } });
    const { status } = await asked.catch(() => ({ status: 0 }));
    if (status === 401 || status === 403) location.reload(); // whoever looks has to log in again
    else open();
  };
  const open = () => {
    const source = new EventSource(boot.stream + location.search);
    source.addEventListener("open", () => connect(true));
    source.addEventListener("error", () => {
      connect(false);
      if (source.readyState === EventSource.CLOSED) setTimeout(openAgain, RETRY_MILLISECONDS);
    });
    source.addEventListener("page", receive((data) => (content = data)));
    source.addEventListener("change", receive((data) => (content = content && applyChange(content, data))));
    source.addEventListener("runs", receive((data) => (runs = data.runs)));
    source.addEventListener("trouble", (event) => {
      const { message } = clean(JSON.parse(event.data));
      setText(trouble, message);
      trouble.hidden = !message;
    });
  };
  open();
};
