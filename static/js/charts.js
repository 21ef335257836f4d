// Charts of tables by day: draws each element with data-chart from the table that it names. The table stays beside it.

const number = new Intl.NumberFormat(document.documentElement.lang);
const drawn = new Map();

function columnsOf(table) {
  const rows = [...table.tBodies[0].rows];
  const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent.trim());
  const days = rows.map((row) => Date.parse(`${row.cells[0].dataset.day}T00:00Z`) / 1000);
  const values = names.map((_, index) => rows.map((row) => Number(row.cells[index + 1].textContent)));
  const day = table.tHead.rows[0].cells[0].textContent.trim();
  return { names, day, data: [days, ...values] };
}

function draw(place) {
  const table = document.getElementById(place.dataset.chart);
  if (!table || !window.uPlot) return;
  const { names, day, data } = columnsOf(table);
  const style = getComputedStyle(place);
  const line = resolved(place, "var(--line)");
  const ink = resolved(place, "var(--ink-2)");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: `13px ${style.fontFamily}` };
  const series = names.map((label, index) => ({
    label,
    stroke: resolved(place, ["var(--accent)", "var(--amber)", "var(--red)"][index % 3]),
    width: 2,
    dash: [[], [8, 4], [2, 4]][index % 3], // told apart without colour too
    points: { show: data[0].length === 1 },
    value: (_, value) => (value == null ? "–" : number.format(value)),
  }));
  drawn.get(place)?.destroy();
  const options = {
    width: place.clientWidth,
    height: 220,
    tzDate: (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    fmtDate: () => (date) => date.toLocaleDateString(document.documentElement.lang, { day: "numeric", month: "short" }),
    axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => number.format(tick)) }],
    series: [{ label: day, value: (_, seconds) => (seconds == null ? "–" : new Date(seconds * 1000).toISOString().slice(0, 10)) }, ...series],
    scales: { y: { range: (_, low, high) => [0, Math.max(1, high)] } },
    cursor: { drag: { x: false, y: false } },
  };
  drawn.set(place, new window.uPlot(options, data, place));
}

// The colour that a CSS value has here, as canvases take no variables.
function resolved(place, value) {
  const probe = place.appendChild(document.createElement("i"));
  probe.style.color = value;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
