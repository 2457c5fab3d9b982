// Draws charts from the tables beside them. data-chart="bars" or "lines" on a table requests a
// chart. data-series on a header cell selects a column, and data-label on a row header is the
// row's label on the x axis. data-value is a cell's number, in hundredths if data-series is
// "money".

const charts = new Map(); // by the host elements on the page
const followed = new ResizeObserver((all) => {
  for (const { target } of all) {
    const chart = charts.get(target);
    if (chart && target.clientWidth > 0 && target.clientWidth !== chart.width) {
      chart.setSize({ width: target.clientWidth, height: heightOf(target) });
    }
  }
});
let uPlot;

function heightOf(host) {
  return Math.round(Math.min(320, Math.max(150, host.clientWidth / 4)));
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function read(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows].filter((row) => row.cells[0].dataset.label !== undefined);
  const drawn = heads.map((head, at) => ({ at, name: head.textContent.trim(), money: head.dataset.series === "money", low: head.dataset.low !== undefined, is: head.dataset.series !== undefined })).filter((x) => x.is);
  const values = drawn.map((x) => rows.map((row) => {
    const text = row.cells[x.at]?.dataset.value;
    return text === undefined || text === "" ? null : Number(text) / (x.money ? 100 : 1);
  }));
  return { labels: rows.map((row) => row.cells[0].dataset.label), drawn, values };
}

// Two series differ by their dashes as well as by their colour.
function seriesOf(x, n, kind) {
  const stroke = colour(n === 0 ? "--link" : "--bad");
  const shape = kind === "bars"
    ? { fill: n === 0 ? stroke : colour("--bad-ground"), paths: uPlot.paths.bars({ size: [0.7, 48] }), points: { show: false } }
    : { points: { show: false }, dash: n === 0 ? undefined : [6, 4] };
  const number = new Intl.NumberFormat(undefined, x.money ? { minimumFractionDigits: 2, maximumFractionDigits: 2 } : {});
  return { label: x.name, stroke, width: 2, value: (_, v) => (v === null ? "–" : number.format(v)), ...shape };
}

// The chart of a collapsed table is above it and stays visible.
function placeOf(table) {
  return table.closest("details") ?? table.closest(".scroll") ?? table;
}

function draw(table) {
  const { labels, drawn, values } = read(table);
  if (labels.length === 0 || drawn.length === 0) {
    return;
  }
  const host = document.createElement("div");
  host.className = "chart";
  host.setAttribute("aria-hidden", "true"); // screen readers read the table
  placeOf(table).before(host);
  const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const at = labels.map((_, n) => n);
  const chart = new uPlot({
    width: host.clientWidth, height: heightOf(host), padding: [8, 8, 0, 0],
    legend: { show: drawn.length > 1 },
    cursor: { drag: { x: false, y: false }, y: false },
    scales: { x: { time: false, range: [-0.6, labels.length - 0.4] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.05 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: Math.max(64, 7 * Math.max(...labels.map((x) => x.length)) + 12), incrs: [1, 2, 5, 7, 10, 20, 50, 100], values: (_, ticks) => ticks.map((n) => labels[n] ?? "") },
      { ...axis, size: 56, values: (_, ticks) => ticks.map((v) => short.format(v)) },
    ],
    series: [{ label: table.tHead.rows[0].cells[0].textContent.trim(), value: (_, n) => labels[n] ?? "–" }, ...drawn.map((x, n) => seriesOf(x, n, table.dataset.chart))],
  }, [at, ...values], host);
  charts.set(host, chart);
  followed.observe(host);
}

// Removes charts whose tables are gone, and draws those of new tables.
function drawAll(again) {
  for (const [host, chart] of charts) {
    if (again || !host.isConnected) {
      followed.unobserve(host);
      chart.destroy();
      host.remove();
      charts.delete(host);
    }
  }
  const wants = [...document.querySelectorAll("table[data-chart]")].filter((table) => !placeOf(table).previousElementSibling?.classList.contains("chart"));
  wants.forEach(draw);
  document.documentElement.dataset.charts = charts.size;
}

async function begin() {
  if (uPlot === undefined && document.querySelector("table[data-chart]")) {
    uPlot = null; // loading
    const looks = document.createElement("link");
    looks.rel = "stylesheet";
    looks.href = "/static/vendor/uPlot.min.css";
    const loaded = new Promise((done) => { looks.onload = done; looks.onerror = done; });
    document.head.append(looks);
    const module = await import("./vendor/uPlot.esm.js");
    await loaded;
    uPlot = module.default;
  }
  if (uPlot) {
    drawAll(false);
  }
}

// page.js replaces the content on a reload; the observer runs before the next paint.
new MutationObserver(begin).observe(document.body, { childList: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => uPlot && drawAll(true));
begin();
