// Hover texts, and the picker of the round whose bars are shown. The page can be read without it.
(() => {
  "use strict";
  document.documentElement.classList.add("scripted");

  // --- hover: titles become one box that follows the pointer -------------------------------------------------------
  for (const title of document.querySelectorAll("svg > title")) {
    title.parentNode.setAttribute("aria-label", title.textContent);
    title.parentNode.removeAttribute("aria-labelledby");
    title.remove();
  }
  for (const mark of document.querySelectorAll(".tip")) {
    const title = mark.querySelector("title");
    mark.dataset.tip = title.textContent;
    title.remove();
  }
  const box = document.createElement("div");
  box.className = "tip-box";
  box.hidden = true;
  document.body.append(box);
  const hover = (event) => {
    const mark = event.target.closest ? event.target.closest(".tip") : null;
    box.hidden = !mark || !mark.dataset.tip;
    if (box.hidden) return;
    box.textContent = mark.dataset.tip;
    const { offsetWidth: width, offsetHeight: height } = box;
    const left = Math.min(event.clientX + 14, document.documentElement.clientWidth - width - 6);
    const top = event.clientY - height - 12;
    box.style.left = `${Math.max(left, 6)}px`;
    box.style.top = `${top < 6 ? event.clientY + 18 : top}px`;
  };
  document.addEventListener("pointermove", hover);
  document.addEventListener("pointerdown", hover);
  document.addEventListener("pointerleave", () => (box.hidden = true));
  document.addEventListener("scroll", () => (box.hidden = true), { passive: true });

  // --- picker: #round=3, #round=mean or #round=benchmark -----------------------------------------------------------
  const holder = document.getElementById("bars-data");
  if (!holder) return;
  const data = JSON.parse(holder.textContent);
  const picker = document.getElementById("round-picker");
  const caption = document.getElementById("bars-caption");
  const rows = [...document.querySelectorAll("#bars tbody tr")];
  const seconds = (value) => `${value.toFixed(value < 1 ? 3 : value < 10 ? 2 : 1)} s`;
  const place = (value) => `${Math.min(100 * value, 100)}%`;

  const showRow = (row, stretches, deadline) => {
    const full = data.scale * deadline;
    let start = 0;
    row.querySelectorAll("rect.phase").forEach((part, index) => {
      const length = stretches ? stretches[index] : 0;
      const left = Math.min(start / full, 1);
      part.setAttribute("x", place(left));
      part.setAttribute("width", place(Math.min((start + length) / full, 1) - left));
      part.parentNode.dataset.tip = `${data.phases[index]}: ${seconds(length)}`;
      start += length;
    });
    const busy = (stretches || []).reduce((sum, length, index) => sum + (data.busy[index] ? length : 0), 0);
    row.lastElementChild.textContent = stretches ? `${seconds(busy)} · ${((100 * busy) / deadline).toFixed(1)} %` : "–";
    const told = (stretches || [])
      .map((length, index) => (length ? `${data.phases[index]} ${seconds(length)}` : ""))
      .filter(Boolean);
    const name = row.firstElementChild.textContent;
    row.querySelector("svg").setAttribute("aria-label", `${name}: ${told.join(", ") || "took no work"}`);
  };
  const show = (view) => {
    if (![...picker.options].some((option) => option.value === view)) return;
    picker.value = view;
    const deadline = data.deadline[view];
    rows.forEach((row, index) => {
      showRow(row, data.rows[index][view], deadline);
      row.classList.toggle("absent", !data.rows[index][view]);
    });
    document.getElementById("bars").dataset.view = view;
    const label = picker.selectedOptions[0].textContent;
    caption.textContent = `${label[0].toUpperCase()}${label.slice(1)}; deadline ${seconds(deadline)}`;
    document.getElementById("round-earlier").disabled = picker.selectedIndex === 0;
    document.getElementById("round-later").disabled = picker.selectedIndex === picker.options.length - 1;
    for (const mark of document.querySelectorAll("[data-round]")) {
      mark.classList.toggle("picked", mark.dataset.round === view);
    }
  };
  const pick = (view) => {
    history.replaceState(null, "", `#round=${view}`);
    show(view);
  };
  const step = (by) => {
    const option = picker.options[picker.selectedIndex + by];
    if (option) pick(option.value);
  };
  picker.addEventListener("change", () => pick(picker.value));
  document.getElementById("round-earlier").addEventListener("click", () => step(-1));
  document.getElementById("round-later").addEventListener("click", () => step(1));
  document.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-round]");
    if (mark) pick(mark.dataset.round);
  });
  const fromHash = () => show((location.hash.match(/^#round=(\w+)$/) || ["", "mean"])[1]);
  window.addEventListener("hashchange", fromHash);
  fromHash();
})();
