// Comments on lines: a press on a line's number takes the form of its file to that line, and with Shift extends it to
// there. `c` opens the form of the file in view. Without this file the form is below its file.

import { resting } from "./keys.js";

const FILE = "[data-takes-comments]";

function sideOf(cell) {
  const row = cell.closest("tr");
  if (row.closest(".diff-side")) return [...row.children].indexOf(cell) < 2 ? "old" : "new";
  return row.classList.contains("removed") ? "old" : "new";
}

// The number that stands in the row for its side, whichever of its cells was pressed.
function numberOf(cell, side) {
  const cells = [...cell.closest("tr").querySelectorAll(".line-number")];
  if (cell.closest(".diff-side")) return cell.dataset.n;
  return (side === "old" ? cells[0] : cells[1])?.dataset.n;
}

function take(form, row) {
  const place = document.createElement("tr");
  place.className = "said-row";
  place.dataset.commentRow = "";
  const cell = document.createElement("td");
  cell.colSpan = 4;
  place.append(cell);
  const before = form.closest("[data-comment-row]");
  row.after(place);
  cell.append(form);
  before?.remove();
}

function comment(cell, extend) {
  const form = cell.closest(FILE).querySelector("[data-comment-form]");
  const side = sideOf(cell);
  const number = Number(numberOf(cell, side));
  if (!form || !number) return;
  const { line, end, side: chosen, text } = form.querySelector("form").elements;
  const isSame = chosen.value === side && line.value !== "";
  if (extend && isSame && number >= Number(line.value)) end.value = number;
  else [line.value, end.value] = [number, ""];
  chosen.value = side;
  take(form, cell.closest("tr"));
  form.open = true;
  text.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const cell = event.target.closest?.(`${FILE} .line-number[data-n]`);
  if (cell && !cell.closest(".hunk")) comment(cell, event.shiftKey);
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "c" || resting(event)) return;
  const files = [...document.querySelectorAll(FILE)].filter((file) => file.offsetParent !== null);
  const file = document.activeElement?.closest(FILE) ?? files.find((each) => each.getBoundingClientRect().bottom > 80);
  const form = file?.querySelector("[data-comment-form]");
  if (!form) return;
  form.open = true;
  form.querySelector("[name=line]").focus();
  event.preventDefault();
});
