// Begins a page with what is embedded in it: the content of a finished page, where a live one comes from, or a login.
import { clean } from "./content.mjs";
import { watchCharts } from "./curves.mjs";
import { follow, onceAFrame } from "./live.mjs";
import { makeLogin, takeToken } from "./login.mjs";
import { makePage } from "./page.mjs";
import { watchPointer } from "./tips.mjs";

const token = takeToken();
const boot = JSON.parse(document.getElementById("content").textContent);
const root = document.getElementById("report");
watchPointer();
watchCharts();
if (boot.content) {
  const content = clean(boot.content);
  const page = makePage(root, () => content.at, onceAFrame(() => page.draw(content)));
  page.draw(content);
  document.documentElement.classList.add("drawn");
} else if (boot.login) makeLogin(root, token, boot.login);
else follow(root, boot);
