"use strict";
// Draws the embedded pictures and makes tables sort and filter. Numbers come from the file; nothing is computed here.
(() => {
  const root = document.documentElement;
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const symbols = { o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross", X: "x" };
  const dashes = { "-": "solid", "--": "dash", "-.": "dashdot", ":": "dot" };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const WIDE = ".wide, .pictures > :last-child:nth-child(odd)", PAPER = 660; // pixels across a sheet of A4
  let printing = false;
  const dark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

  const rgba = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;

  function traces(picture) {
    const seen = new Set(), out = [];
    const ordered = [...picture.series].sort((a, b) => a.strong - b.strong);
    const leaders = new Set(ordered.filter((s) => s.strong).map((s) => s.group));
    for (const s of ordered) {
      const colour = dark() ? s.dark : s.colour, sideways = picture.sideways;
      const leads = !seen.has(s.group) && (s.strong || !leaders.has(s.group));
      if (leads) seen.add(s.group);
      const shared = { legendgroup: s.group, name: s.group, showlegend: leads && !picture.y_names.length };
      const bounds = s.low ? s.low.map((low, i) => [low, s.high[i]]) : null;
      const label = (i) => (s.labels.length ? s.labels[i] : s.name);
      const texts = s.x.map((_, i) => `<b>${escape(label(i))}</b>` + (bounds && bounds[i][0] !== bounds[i][1] ? `<br>interval ${brief(bounds[i][0])} to ${brief(bounds[i][1])}` : ""));
      const named = (axis, names) => (names.length ? "" : `<br>${escape(picture[axis])}: %{${axis}:.4~g}`);
      const hover = { text: texts, hovertemplate: `%{text}${named("x", picture.x_names)}${named("y", picture.y_names)}<extra></extra>` };
      if (s.kind === "bars") {
        out.push({ ...shared, ...hover, type: "bar", textposition: "none", x: s.x, y: s.y, marker: { color: rgba(colour, 0.65), pattern: { shape: out.length ? "/" : "", fgcolor: rgba(colour, 1), size: 6, solidity: 0.25 } } });
      } else if (s.kind === "line") {
        if (bounds && s.strong) {
          out.push({ ...shared, showlegend: false, type: "scatter", mode: "lines", hoverinfo: "skip", x: s.x.concat([...s.x].reverse()), y: s.high.concat([...s.low].reverse()), fill: "toself", fillcolor: rgba(colour, 0.16), line: { width: 0 } });
        }
        out.push({ ...shared, ...hover, type: "scatter", mode: s.x.length > 1 ? "lines" : "lines+markers", x: s.x, y: s.y, opacity: s.strong ? 1 : 0.4, line: { color: colour, width: s.strong ? 2.4 : 1, dash: dashes[s.dash] } });
      } else {
        const middle = sideways ? s.x : s.y;
        const error = bounds && { type: "data", symmetric: false, array: middle.map((v, i) => bounds[i][1] - v), arrayminus: middle.map((v, i) => v - bounds[i][0]), color: rgba(colour, s.strong ? 1 : 0.35), thickness: s.strong ? 2.5 : 1, width: 0 };
        out.push({ ...shared, ...hover, type: "scatter", mode: "markers", x: s.x, y: s.y, [sideways ? "error_x" : "error_y"]: error || {}, marker: { color: colour, size: s.strong ? 10 : 6, symbol: symbols[s.marker] + (s.strong ? "" : "-open"), opacity: s.strong ? 1 : 0.6 } });
      }
    }
    return out;
  }

  function layout(picture) {
    const ink = dark() ? "#e9edf0" : "#1b1f24", soft = dark() ? "#a0abb6" : "#5b6570", grid = dark() ? "#2d363f" : "#e9ebed";
    const rows = picture.y_names.length;
    const axis = (title, names) => ({ title: { text: title, font: { size: 12, color: soft }, standoff: 6 }, gridcolor: grid, zeroline: false, linecolor: grid, automargin: true, tickfont: { size: 12, color: names.length ? ink : soft }, ...(names.length ? { tickvals: names.map((_, i) => i), ticktext: names.map(escape), range: [-0.6, names.length - 0.4], showgrid: false } : {}) });
    const lines = picture.lines.map((line, i) => ({ type: "line", layer: "below", line: { color: soft, width: 1.2, dash: i % 2 ? "dot" : "dash" }, ...(line.axis === "x" ? { x0: line.value, x1: line.value, yref: "paper", y0: 0, y1: 1 } : { y0: line.value, y1: line.value, xref: "paper", x0: 0, x1: 1 }) }));
    const xs = picture.series.flatMap((s) => s.x).concat(picture.lines.map((l) => l.value)), span = Math.max(...xs) - Math.min(...xs);
    const beside = (line, i) => line.axis === "x" && picture.lines.slice(0, i).some((other) => Math.abs(other.value - line.value) < 0.15 * span);
    const highest = Math.max(...picture.lines.map((line) => line.value));
    const notes = picture.lines.map((line, i) => ({ text: escape(line.label), showarrow: false, font: { size: 11, color: soft }, ...(line.axis === "x" ? { x: line.value, yref: "paper", y: 1, yanchor: "bottom", yshift: beside(line, i) ? 13 : 0 } : { xref: "paper", x: 0, xanchor: "left", xshift: 4, y: line.value, yanchor: line.value === highest ? "bottom" : "top" }) }));
    const out = { autosize: true, height: rows ? Math.max(240, 110 + 38 * rows) : 320, margin: { l: 8, r: 12, t: picture.lines.some(beside) ? 36 : picture.lines.some((l) => l.axis === "x") ? 22 : 8, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", color: ink }, barmode: "overlay", bargap: 0.06, hovermode: "closest", hoverlabel: { bgcolor: dark() ? "#232b34" : "#ffffff", bordercolor: grid, font: { color: ink, size: 12 } }, legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 12 } }, xaxis: axis(picture.x, picture.x_names), yaxis: axis(picture.y, picture.y_names), shapes: lines, annotations: notes };
    if (picture.identity) {
      const all = picture.series.flatMap((s) => [...s.x, ...s.low, ...s.high]), low = Math.min(...all), high = Math.max(...all), pad = 0.12 * (high - low || 1);
      out.xaxis.range = out.yaxis.range = [low - pad, high + pad];
      out.shapes.push({ type: "line", layer: "below", x0: low - pad, y0: low - pad, x1: high + pad, y1: high + pad, line: { color: soft, width: 1.2, dash: "dash" } });
      out.annotations.push({ text: "estimate = truth", showarrow: false, x: high + pad, y: high + pad, xanchor: "right", yanchor: "top", xshift: -14, font: { size: 11, color: soft } });
    }
    if (picture.range) out.yaxis.range = picture.range;
    return out;
  }

  const escape = (text) => String(text).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const brief = (value) => (value === null ? "–" : Number(value.toPrecision(4)).toString());

  function draw(element) {
    const picture = pictures[element.dataset.picture];
    const shape = layout(picture);
    if (printing) Object.assign(shape, { autosize: false, width: element.closest(WIDE) ? PAPER : PAPER / 2 - 40 });
    Plotly.react(element, traces(picture), shape, { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" });
    element.dataset.drawn = "yes";
  }
  const plots = [...document.querySelectorAll(".plot")];
  const resize = () => plots.filter((p) => p.dataset.drawn && p.offsetParent).forEach((p) => Plotly.Plots.resize(p));
  const redraw = () => plots.filter((p) => p.dataset.drawn).forEach(draw);
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
  }, { rootMargin: "600px" });
  plots.forEach((plot) => watch.observe(plot));

  // theme
  const button = document.getElementById("theme");
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); redraw(); });
  system.addEventListener("change", () => { name(); redraw(); });
  name();

  // print: everything open, drawn, and in the light
  let closed = [], theme;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme; root.dataset.theme = "light"; printing = true;
    closed = [...document.querySelectorAll("details:not([open])")]; closed.forEach((d) => { d.open = true; });
    root.classList.remove("scripted"); plots.forEach(draw);
  });
  addEventListener("afterprint", () => {
    printing = false; if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    closed.forEach((d) => { d.open = false; }); root.classList.add("scripted"); redraw(); resize();
  });

  // runs as tabs
  root.classList.add("scripted");
  const show = (id) => {
    document.querySelectorAll("article.run").forEach((a) => a.classList.toggle("shown", a.id === id));
    document.querySelectorAll(".tabs [role=tab]").forEach((t) => t.setAttribute("aria-selected", String(t.dataset.show === id)));
    resize();
  };
  document.querySelectorAll("[data-show]").forEach((e) => e.addEventListener("click", () => show(e.dataset.show)));

  // pick a metric
  document.querySelectorAll("[data-swap]").forEach((select) => select.addEventListener("change", () => {
    const plot = document.getElementById(select.dataset.swap);
    plot.dataset.picture = select.value; draw(plot);
  }));

  // sort
  const key = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim().replace(/,/g, "");
    const number = parseFloat(text);
    return text === "–" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  };
  document.querySelectorAll("table.sortable").forEach((table) => {
    const headings = [...table.tHead.rows[0].cells];
    const sort = (column) => {
      const down = headings[column].getAttribute("aria-sort") === "descending" ? 1 : -1;
      headings.forEach((h) => h.removeAttribute("aria-sort"));
      headings[column].setAttribute("aria-sort", down === -1 ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows].map((row) => [key(row.cells[column]), row]);
      // what has no value stays last either way
      rows.sort(([a], [b]) => (a === null ? (b === null ? 0 : 1) : b === null ? -1 : down * (a > b ? 1 : a < b ? -1 : 0)));
      table.tBodies[0].append(...rows.map(([, row]) => row));
    };
    headings.forEach((heading, column) => {
      heading.tabIndex = 0;
      heading.addEventListener("click", () => sort(column));
      heading.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(column); } });
    });
  });

  // filter
  document.querySelectorAll(".filter").forEach((filter) => {
    const rows = [...document.getElementById(filter.dataset.for).tBodies[0].rows];
    const apply = () => {
      const words = filter.querySelector("[type=search]").value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = new Set([...filter.querySelectorAll("input[value]:checked")].map((box) => box.value));
      const only = filter.querySelector("[data-only]").checked;
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase() + " " + row.dataset.algorithm;
        row.hidden = !(kept.has(row.dataset.algorithm) && words.every((w) => text.includes(w)) && (!only || row.classList.contains("selected")));
        shown += !row.hidden;
      }
      filter.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
    };
    filter.addEventListener("input", apply);
    apply();
  });
})();
