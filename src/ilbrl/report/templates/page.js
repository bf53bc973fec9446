"use strict";
// Draws the embedded pictures and makes tables sort and filter. Numbers come from the file; nothing is computed here.
(() => {
  const root = document.documentElement;
  const pictures = JSON.parse(document.getElementById("pictures").textContent);
  const SYMBOLS = { o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross", X: "x" };
  const DASHES = { "-": "solid", "--": "dash", "-.": "dashdot", ":": "dot" };
  const WIDE = ".wide, .pictures > :last-child:nth-child(odd):not(:only-child)";
  const PAPER = 660; // pixels across a sheet of A4
  const LETTER = 6.3, LINE = 14; // pixels of a label's letter and of its line
  const system = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const dark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const colours = () =>
    dark()
      ? { ink: "#e9edf0", soft: "#a0abb6", grid: "#2d363f", ground: "#232b34" }
      : { ink: "#1b1f24", soft: "#5b6570", grid: "#e9ebed", ground: "#ffffff" };

  // Names come from files. Plotly makes links and mark-up of texts that look like HTML: every text goes through here,
  // and is cut where it would leave no room for the picture.
  const cut = (said) => (said.length > 60 ? `${said.slice(0, 60)}…` : said);
  const text = (said) => cut(String(said)).replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
  const inTemplate = (said) => text(said).replaceAll("%{", "%\u200b{");
  const brief = (value) => (value === null ? "–" : Number(value.toPrecision(4)).toString());
  const rgba = (hex, alpha) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},${alpha})`;

  // --- what is drawn

  function traces(picture) {
    const ordered = [...picture.series].sort((a, b) => a.strong - b.strong);
    const leaders = new Set(ordered.filter((s) => s.strong).map((s) => s.group));
    const seen = new Set();
    return ordered.flatMap((s, i) => {
      const leads = !seen.has(s.group) && (s.strong || !leaders.has(s.group));
      if (leads) seen.add(s.group);
      const shared = { legendgroup: s.group, name: text(s.group), showlegend: leads && !picture.y_names.length };
      const drawer = { bars, line, points }[s.kind];
      return drawer({ ...shared, ...hover(picture, s) }, s, dark() ? s.dark : s.colour, picture, i);
    });
  }

  function hover(picture, s) {
    const label = (i) => (s.labels.length ? s.labels[i] : s.name);
    const interval = (i) => (s.low && s.low[i] !== s.high[i] ? `<br>interval ${brief(s.low[i])} to ${brief(s.high[i])}` : "");
    const value = (axis, names) => (names.length ? "" : `<br>${inTemplate(picture[axis])}: %{${axis}:.4~g}`);
    const values = value("x", picture.x_names) + value("y", picture.y_names);
    return {
      text: s.x.map((_, i) => `<b>${text(label(i))}</b>${interval(i)}`),
      hovertemplate: `%{text}${values}<extra></extra>`,
    };
  }

  function bars(shared, s, colour, picture, i) {
    const pattern = { shape: i ? "/" : "", fgcolor: rgba(colour, 1), size: 6, solidity: 0.25 };
    return [{ ...shared, type: "bar", textposition: "none", x: s.x, y: s.y, marker: { color: rgba(colour, 0.65), pattern } }];
  }

  function line(shared, s, colour) {
    const band = {
      ...shared, text: undefined, hovertemplate: undefined, showlegend: false, type: "scatter", mode: "lines",
      hoverinfo: "skip", fill: "toself", fillcolor: rgba(colour, 0.16), line: { width: 0 },
      x: s.x.concat([...s.x].reverse()), y: s.low ? s.high.concat([...s.low].reverse()) : [],
    };
    const middle = {
      ...shared, type: "scatter", mode: s.x.length > 1 ? "lines" : "lines+markers", x: s.x, y: s.y,
      opacity: s.strong ? 1 : 0.4, line: { color: colour, width: s.strong ? 2.4 : 1, dash: DASHES[s.dash] },
    };
    return s.low && s.strong ? [band, middle] : [middle];
  }

  function points(shared, s, colour, picture) {
    const middle = picture.sideways ? s.x : s.y;
    const error = s.low && {
      type: "data", symmetric: false, color: rgba(colour, s.strong ? 1 : 0.35), thickness: s.strong ? 2.5 : 1, width: 0,
      array: middle.map((v, i) => s.high[i] - v), arrayminus: middle.map((v, i) => v - s.low[i]),
    };
    const symbol = SYMBOLS[s.marker] + (s.strong ? "" : "-open");
    const marker = { color: colour, size: s.strong ? 10 : 6, symbol, opacity: s.strong ? 1 : 0.6 };
    const errors = { [picture.sideways ? "error_x" : "error_y"]: error || {} };
    return [{ ...shared, ...errors, type: "scatter", mode: "markers", x: s.x, y: s.y, marker }];
  }

  // --- around it: axes, reference lines and their labels, which stand outside the frame so that no curve hides them

  function layout(picture, width) {
    const { ink, soft, grid, ground } = colours();
    const rows = picture.y_names.length;
    const height = rows ? Math.max(240, 110 + 38 * rows) : 320;
    const above = labelsAbove(picture, width), beside = labelsBeside(picture, height);
    const axis = (title, names, ticks) => ({
      title: { text: text(title), font: { size: 12, color: soft }, standoff: 6 }, gridcolor: grid, zeroline: false,
      linecolor: grid, automargin: true, tickfont: { size: 12, color: names.length ? ink : soft },
      ...(names.length && {
        tickvals: names.map((_, i) => i), ticktext: names.map(text), range: [-0.6, names.length - 0.4], showgrid: false,
      }),
      ...(ticks.length && {
        type: "log", tickvals: ticks, ticktext: ticks.map(brief), range: [ticks[0], ticks.at(-1)].map(Math.log10),
      }),
    });
    const out = {
      autosize: true, height, barmode: "overlay", bargap: 0.06, hovermode: "closest",
      margin: { l: 8, r: 12 + beside.space, t: 8 + above.space, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", color: ink },
      hoverlabel: { bgcolor: ground, bordercolor: grid, font: { color: ink, size: 12 } },
      legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 12 } },
      xaxis: axis(picture.x, picture.x_names, picture.x_ticks), yaxis: axis(picture.y, picture.y_names, picture.y_ticks),
      shapes: picture.lines.map((line, i) => acrossAt(line, i)), annotations: [...above.labels, ...beside.labels],
    };
    if (picture.identity) {
      const all = picture.series.flatMap((s) => [...s.x, ...s.low, ...s.high]);
      const low = Math.min(...all), high = Math.max(...all), pad = 0.12 * (high - low || 1);
      out.xaxis.range = out.yaxis.range = [low - pad, high + pad];
      out.shapes.push({ ...dashed(0), x0: low - pad, y0: low - pad, x1: high + pad, y1: high + pad });
    }
    if (picture.range) out.yaxis.range = picture.range;
    return out;
  }

  const dashed = (i) => ({ type: "line", layer: "below", line: { color: colours().soft, width: 1.2, dash: i % 2 ? "dot" : "dash" } });
  const acrossAt = (line, i) =>
    line.axis === "x"
      ? { ...dashed(i), x0: line.value, x1: line.value, yref: "paper", y0: 0, y1: 1 }
      : { ...dashed(i), y0: line.value, y1: line.value, xref: "paper", x0: 0, x1: 1 };
  const note = (line) => ({ text: text(line.label), showarrow: false, font: { size: 11, color: colours().soft } });
  const extent = (values) => {
    const known = values.filter((v) => v !== null), low = Math.min(...known), high = Math.max(...known);
    return [low, high - low || 1];
  };

  // Of lines across x: above the frame, one over another where they would touch.
  function labelsAbove(picture, width) {
    const lines = picture.lines.filter((line) => line.axis === "x");
    const ends = picture.sideways ? picture.series.flatMap((s) => [...(s.low || []), ...(s.high || [])]) : [];
    const [low, span] = extent([...picture.series.flatMap((s) => s.x), ...ends, ...lines.map((line) => line.value)]);
    const taken = []; // the right end of the last label on each level
    const labels = [...lines].sort((a, b) => a.value - b.value).map((line) => {
      const at = (line.value - low) / span, size = (LETTER * line.label.length) / Math.max(200, width - 80);
      const xanchor = at < 0.2 ? "left" : at > 0.8 ? "right" : "center";
      const start = at - size * { left: 0, center: 0.5, right: 1 }[xanchor];
      let level = taken.findIndex((end) => end < start);
      if (level < 0) level = taken.length;
      taken[level] = start + size + 0.02;
      return { ...note(line), x: line.value, xanchor, yref: "paper", y: 1, yanchor: "bottom", yshift: LINE * level };
    });
    return { labels, space: LINE * taken.length };
  }

  // Of lines across y: to the right of the frame, pushed apart where they would touch.
  function labelsBeside(picture, height) {
    const lines = picture.lines.filter((line) => line.axis === "y").sort((a, b) => a.value - b.value);
    const values = [...picture.series.flatMap((s) => s.y), ...lines.map((line) => line.value)];
    const [low, span] = picture.range ? [picture.range[0], picture.range[1] - picture.range[0]] : extent(values);
    let free = -Infinity;
    const labels = lines.map((line) => {
      const at = ((line.value - low) / span) * (height - 90), put = Math.max(at, free);
      free = put + LINE;
      return { ...note(line), xref: "paper", x: 1, xanchor: "left", xshift: 4, y: line.value, yshift: put - at };
    });
    return { labels, space: Math.min(130, Math.max(0, ...lines.map((line) => LETTER * line.label.length))) };
  }

  // --- drawing: what is in sight first, the rest without waiting for it to come into sight

  function draw(element) {
    const picture = pictures[element.dataset.picture];
    const width = printing ? (element.closest(WIDE) ? PAPER : PAPER / 2 - 40) : element.clientWidth;
    const shape = { ...layout(picture, width), ...(printing && { autosize: false, width }) };
    const options = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
    Plotly.react(element, traces(picture), shape, options);
    element.dataset.drawn = "yes";
  }
  const plots = [...document.querySelectorAll(".plot")];
  const resize = () => plots.filter((p) => p.dataset.drawn && p.offsetParent).forEach((p) => Plotly.Plots.resize(p));
  const redraw = () => plots.filter((p) => p.dataset.drawn).forEach(draw);
  const inSight = (p) => p.getBoundingClientRect().top < innerHeight && p.getBoundingClientRect().bottom > 0;
  const drawRest = () => {
    const left = plots.filter((p) => !p.dataset.drawn && p.offsetParent);
    if (!left.length) return;
    draw(left.find(inSight) || left[0]);
    setTimeout(drawRest);
  };
  drawRest();

  // --- theme

  const button = document.getElementById("theme");
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); redraw(); });
  system.addEventListener("change", () => { name(); redraw(); });
  name();

  // --- print: everything open, drawn, and in the light

  let closed = [], theme;
  addEventListener("beforeprint", () => {
    theme = root.dataset.theme;
    root.dataset.theme = "light";
    printing = true;
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((d) => { d.open = true; });
    root.classList.remove("scripted");
    plots.forEach(draw);
  });
  addEventListener("afterprint", () => {
    printing = false;
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    closed.forEach((d) => { d.open = false; });
    root.classList.add("scripted");
    redraw();
    resize();
  });

  // --- runs as tabs

  root.classList.add("scripted");
  const show = (id) => {
    document.querySelectorAll("article.run").forEach((a) => a.classList.toggle("shown", a.id === id));
    document.querySelectorAll(".tabs [role=tab]").forEach((t) => t.setAttribute("aria-selected", String(t.dataset.show === id)));
    resize();
    drawRest();
    scrollers.forEach(mark);
  };
  document.querySelectorAll("[data-show]").forEach((e) => e.addEventListener("click", () => show(e.dataset.show)));

  // --- tables that are wider or taller than their frame fade where they go on

  const scrollers = [...document.querySelectorAll(".scroll")];
  const mark = (s) => {
    s.classList.toggle("more-right", s.scrollLeft + s.clientWidth < s.scrollWidth - 2);
    s.classList.toggle("more-left", s.scrollLeft > 2);
    s.classList.toggle("more-below", s.scrollTop + s.clientHeight < s.scrollHeight - 2);
  };
  scrollers.forEach((s) => { s.addEventListener("scroll", () => mark(s), { passive: true }); mark(s); });
  document.querySelectorAll("details").forEach((d) => d.addEventListener("toggle", () => scrollers.forEach(mark)));
  addEventListener("resize", () => scrollers.forEach(mark));

  // --- pick a metric

  document.querySelectorAll("[data-swap]").forEach((select) => select.addEventListener("change", () => {
    const plot = document.getElementById(select.dataset.swap);
    plot.dataset.picture = select.value;
    draw(plot);
  }));

  // --- sort

  const key = (cell) => {
    const said = cell.dataset.value ?? cell.textContent.trim().replace(/,/g, "");
    const number = parseFloat(said);
    return said === "–" ? null : Number.isNaN(number) ? said.toLowerCase() : number;
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
      heading.addEventListener("keydown", (e) => {
        if (e.key === "Enter" || e.key === " ") { e.preventDefault(); sort(column); }
      });
    });
  });

  // --- filter

  document.querySelectorAll(".filter").forEach((filter) => {
    const rows = [...document.getElementById(filter.dataset.for).tBodies[0].rows];
    const apply = () => {
      const words = filter.querySelector("[type=search]").value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = new Set([...filter.querySelectorAll("input[value]:checked")].map((box) => box.value));
      const only = filter.querySelector("[data-only]").checked;
      const shows = (row) => {
        const said = `${row.textContent.toLowerCase()} ${row.dataset.algorithm}`;
        const chosen = !only || row.classList.contains("selected");
        return chosen && kept.has(row.dataset.algorithm) && words.every((word) => said.includes(word));
      };
      rows.forEach((row) => { row.hidden = !shows(row); });
      const shown = rows.filter((row) => !row.hidden).length;
      filter.querySelector("output").textContent = `${shown} of ${rows.length} shown`;
      scrollers.forEach(mark);
    };
    filter.addEventListener("input", apply);
    apply();
  });
})();
