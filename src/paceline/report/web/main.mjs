// Begins a page with what is embedded in it.
import { drawPage } from "./page.mjs";

const boot = JSON.parse(document.getElementById("content").textContent);
drawPage(document.getElementById("report"), boot.content);
document.documentElement.classList.add("drawn");
