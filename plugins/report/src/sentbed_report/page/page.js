const root = document.documentElement;
const rows = [...document.querySelectorAll("tr[data-cell]")];
const filter = document.querySelector(".filter");
const labelsOf = filter ? JSON.parse(filter.dataset.labels) : {};
const matches = (row, text, chosen) => {
  const labels = labelsOf[row.dataset.cell] ?? {};
  return row.dataset.cell.toLowerCase().includes(text) &&
    [...chosen].every(([axis, wanted]) => wanted.has(labels[axis]));
};
const refresh = () => {
  const text = filter.querySelector("input[type=search]").value.trim().toLowerCase();
  const chosen = new Map();
  for (const box of filter.querySelectorAll("input:checked")) {
    if (!chosen.has(box.name)) chosen.set(box.name, new Set());
    chosen.get(box.name).add(box.value);
  }
  const all = new Set(), shown = new Set();
  for (const row of rows) {
    row.hidden = !matches(row, text, chosen);
    all.add(row.dataset.cell);
    if (!row.hidden) shown.add(row.dataset.cell);
  }
  filter.querySelector("output").textContent =
    shown.size < all.size ? `${shown.size} of ${all.size} cells` : `${all.size} cells`;
};
if (filter) {
  filter.hidden = false;
  filter.addEventListener("input", refresh);
  filter.addEventListener("submit", (event) => event.preventDefault());
  refresh();
}

const sort = (head, column) => {
  const body = head.closest("table").tBodies[0];
  const current = head.getAttribute("aria-sort") ??
    (head.dataset.first === "ascending" ? "descending" : "ascending");
  const up = current === "descending";
  for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = (row) => row.cells[column].dataset.value;
  const found = [...body.rows];
  found.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    // What has no number stands below in either direction.
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    return up ? x - y : y - x;
  });
  body.append(...found);
};
for (const table of document.querySelectorAll("table.sortable")) {
  for (const [column, head] of [...table.tHead.querySelector(".headings").cells].entries()) {
    const control = document.createElement("button");
    control.type = "button";
    control.append(...head.childNodes);
    control.addEventListener("click", () => sort(head, column));
    head.append(control);
  }
}

const tip = document.createElement("div");
tip.className = "tip";
tip.id = "tip";
tip.role = "tooltip";
tip.hidden = true;
document.body.append(tip);
let shown = null;
const hide = () => {
  tip.hidden = true;
  shown?.removeAttribute("aria-describedby");
};
const hints = new Map();
const place = (mark) => {
  hide();
  shown = mark;
  mark.setAttribute("aria-describedby", "tip");
  tip.textContent = hints.get(mark);
  tip.hidden = false;
  const at = mark.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const wide = root.clientWidth;
  tip.style.left = `${Math.max(8, Math.min(at.left + at.width / 2 - size.width / 2, wide - size.width - 8))}px`;
  tip.style.top = `${at.top > size.height + 12 ? at.top - size.height - 6 : at.bottom + 6}px`;
};
for (const mark of document.querySelectorAll(".mark")) {
  hints.set(mark, mark.title);
  mark.ariaLabel = `${mark.textContent} ${mark.title}`;
  mark.removeAttribute("title");
  mark.role = "note";
  mark.tabIndex = 0;
}
for (const event of ["mouseover", "focusin"])
  addEventListener(event, ({target}) => { if (hints.has(target)) place(target); });
for (const event of ["mouseout", "focusout"])
  addEventListener(event, ({target}) => { if (target === shown) hide(); });
addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
addEventListener("scroll", hide, true);
