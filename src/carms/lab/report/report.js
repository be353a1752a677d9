"use strict";

const panels = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash"];
let printing = false;

const inDark = () => dark.matches && !printing;

// Black is the colour of an estimator, and would be invisible in the dark.
const shade = (colour) => (inDark() && colour === "#000000" ? "#e6e9ed" : colour);
const faint = (colour) => shade(colour) + "26";

function curveTraces(curve) {
  const common = { legendgroup: curve.name, name: curve.name };
  const line = {
    ...common, type: "scatter", mode: curve.x.length > 1 ? "lines" : "markers", x: curve.x, y: curve.y,
    line: { color: shade(curve.colour), dash: DASHES[curve.dash % DASHES.length], width: 1.8 },
    marker: { color: shade(curve.colour) },
    hovertemplate: "%{y:.5g}",
  };
  if (!curve.low) return [line];
  line.customdata = curve.x.map((_, i) => [curve.low[i], curve.high[i], curve.seeds[i]]);
  line.hovertemplate = "%{y:.5g} (%{customdata[0]:.5g} to %{customdata[1]:.5g}, seeds: %{customdata[2]})";
  const band = {
    ...common, type: "scatter", mode: "lines", fill: "toself", fillcolor: faint(curve.colour), line: { width: 0 },
    x: [...curve.x, ...[...curve.x].reverse()], y: [...curve.high, ...[...curve.low].reverse()],
    hoverinfo: "skip", showlegend: false,
  };
  return [band, line];
}

function cloudTrace(cloud) {
  return {
    type: "scatter", mode: "markers", legendgroup: cloud.name, name: cloud.name, x: cloud.x, y: cloud.y, text: cloud.text,
    marker: {
      color: shade(cloud.colour), size: 10, line: { width: 1.5, color: shade(cloud.colour) },
      symbol: cloud.partial.map((open) => cloud.dash % 4 + (open ? 100 : 0)),
    },
    hovertemplate: "%{text}<br>%{x:.4g} ms, variance %{y:.4g}",
  };
}

// By default Plotly labels too many places of some logarithmic axes.
function logAxis(plot) {
  const values = plot.traces.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]);
  const positive = values.filter((value) => value > 0);
  const spread = positive.reduce((a, b) => Math.max(a, b), 0) / positive.reduce((a, b) => Math.min(a, b), Infinity);
  const usual = spread > 1 && spread < 8;
  return { type: "log", tickformat: "~g", ...(usual ? {} : { dtick: spread > 1000 ? 1 : "D2" }) };
}

function layoutOf(plot) {
  const [text, grid, back] = inDark() ? ["#e6e9ed", "#2e353d", "#14171b"] : ["#1b1f24", "#e4e8ec", "#ffffff"];
  const axis = { gridcolor: grid, linecolor: grid, zeroline: false, automargin: true };
  const title = (words) => ({ text: words, standoff: 8 });
  return {
    font: { family: "system-ui, sans-serif", size: 12, color: text },
    paper_bgcolor: back, plot_bgcolor: back, margin: { l: 8, r: 28, t: 8, b: 8 },
    xaxis: { ...axis, title: title(plot.x), range: plot.range, tickformat: ",~r", hoverformat: ",~r", nticks: 6 },
    yaxis: { ...axis, title: title(plot.y), exponentformat: "none", ...(plot.log ? logAxis(plot) : {}) },
    hovermode: plot.kind === "clouds" ? "closest" : "x unified", hoverlabel: { bgcolor: back, font: { color: text } },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }, showlegend: true,
  };
}

// Plotly takes the height of the legend from that of the plot.
function heightOf(plot, width) {
  const letters = plot.traces.reduce((most, one) => Math.max(most, one.name.length), 0);
  const columns = Math.max(1, Math.floor(width / (7 * letters + 50)));
  return 280 + 24 * Math.ceil(plot.traces.length / columns);
}

function draw(place) {
  const plot = panels[place.dataset.panel][place.dataset.plot];
  place.style.height = `${heightOf(plot, place.clientWidth)}px`;
  const traces = plot.traces.flatMap(plot.kind === "clouds" ? cloudTrace : curveTraces);
  // Traces that were hidden stay hidden when the colours change.
  (place.data || []).forEach((old, i) => { traces[i].visible = old.visible; });
  // One button of the bar would send the data to another host.
  const config = { responsive: true, displayModeBar: false, showTips: false };
  const first = !place.dataset.drawn;
  place.dataset.drawn = "true";
  Plotly.react(place, traces, layoutOf(plot), config);
  if (first) place.on("plotly_restyle", () => follow(place));
}

// Hide a trace in all plots of a panel when it is hidden in one.
function follow(place) {
  const shown = (trace) => trace.visible ?? true;
  const states = new Map(place.data.map((trace) => [trace.name, shown(trace)]));
  for (const other of place.closest(".plots").querySelectorAll("[data-drawn]")) {
    const visible = other.data.map((trace) => states.get(trace.name) ?? shown(trace));
    if (visible.some((value, i) => value !== shown(other.data[i]))) Plotly.restyle(other, { visible });
  }
}

const places = [...document.querySelectorAll(".plot")];
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    draw(entry.target);
  }
}, { rootMargin: "400px" });
places.forEach((place) => seen.observe(place));

const redraw = () => places.filter((place) => place.dataset.drawn).forEach(draw);
dark.addEventListener("change", redraw);
addEventListener("beforeprint", () => { printing = true; places.forEach(draw); });
addEventListener("afterprint", () => { printing = false; redraw(); });

function sort(table, column, head) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const numeric = head.classList.contains("number");
  const sign = down ? -1 : 1;
  const key = (row) => row.cells[column].dataset.value;
  const compare = (a, b) => (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  const rows = [...table.tBodies[0].rows];
  // Fields without a value come last in both directions.
  rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
    return sign * compare(x, y);
  });
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.firstElementChild.addEventListener("click", () => sort(table, column, head));
  });
}
