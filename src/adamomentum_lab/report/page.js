"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // Okabe and Ito's colours, which the colour-blind tell apart; the first is the baseline's. Beyond
  // eight optimizers the colours come again with another dash.
  const light = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#2a9bd6", "#000000", "#7a5c3a"];
  const dark = ["#4db4f0", "#ff8a3d", "#2fd0a0", "#f0a3cc", "#f0c04a", "#9bd8f7", "#f2f2f2", "#c9a27a"];
  const dashes = ["solid", "dash", "dot", "dashdot"];
  const PAGE = 20; // rows of the table of runs that are shown at once
  const isDark = window.matchMedia("(prefers-color-scheme: dark)");
  const baselines = data.races.flatMap((race) => race.baseline ?? []);
  const every = [...new Set([...baselines, ...data.races.flatMap((race) => race.order)])];

  const colour = (name) => {
    const place = every.indexOf(name);
    return (isDark.matches ? dark : light)[place % light.length];
  };
  const line = (name) => ({
    color: colour(name),
    dash: dashes[Math.floor(every.indexOf(name) / light.length) % dashes.length],
    width: baselines.includes(name) ? 3 : 1.8,
  });
  const faint = (name) => {
    const hex = colour(name).slice(1);
    const parts = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
    return `rgba(${parts.join(",")},0.13)`;
  };

  // Elements are built, never parsed from text: nothing in the data can become markup.
  const make = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  };
  const shown = (value) => {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number") return Array.isArray(value) ? `(${value.join(", ")})` : String(value);
    if (Number.isInteger(value)) return String(value);
    const size = Math.abs(value);
    return size < 1e-3 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(5)));
  };
  const settings = (run) => {
    const names = Object.keys(run.settings).sort((a, b) => (b === "lr") - (a === "lr"));
    return names.map((name) => `${name.replaceAll("_", " ")} ${shown(run.settings[name])}`).join(", ");
  };
  // Plotly reads some HTML in its texts; names from a user's file must stay text.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  const drawn = new Map(); // each plot with the function that draws it again
  const layout = (place, more) => {
    const style = getComputedStyle(document.body);
    const grid = style.getPropertyValue("--line").trim();
    const axis = { gridcolor: grid, linecolor: grid, zeroline: false, automargin: true };
    const narrow = place.clientWidth < 560;
    return {
      margin: { l: 10, r: 10, t: 34, b: 10 }, // above the plot: the toolbar
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style.color, activecolor: style.color },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: style.color, family: style.fontFamily, size: 12 },
      hovermode: "closest",
      hoverlabel: { namelength: -1 },
      legend: narrow ? { orientation: "h", y: -0.3, yanchor: "top" } : {},
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
    };
  };
  // Left to itself, Plotly offers to send the data to its makers, and reads $...$ as mathematics.
  const config = {
    displaylogo: false, responsive: true, showSendToCloud: false, plotlyServerURL: "", typesetMath: false,
  };
  const draw = (place, traces, more) => Plotly.react(place, traces, layout(place, more), config);
  // A plot is drawn when it comes into view: a page of many races opens at once.
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) drawNow(entry.target);
    }
  }, { rootMargin: "300px" });
  const drawNow = (place) => {
    watcher.unobserve(place);
    drawn.get(place).call();
    place.dataset.drawn = "yes";
  };
  const plot = (place, function_) => {
    if (!place) return;
    drawn.set(place, function_);
    watcher.observe(place);
  };
  const redraw = (place) => { if (place.dataset.drawn) drawn.get(place).call(); };

  const stages = { tuning: "trial", final: "final", check: "check", length: "other length" };
  const table = (heads, rows) =>
    make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) =>
        make("td", typeof cell === "number" ? { class: "number" } : {},
          cell instanceof Node ? cell : shown(cell)))))));

  const dialog = document.getElementById("dialog");
  const title = document.getElementById("dialog-title");
  const open = (heading, ...content) => {
    title.textContent = heading;
    dialog.querySelector(".content").replaceChildren(...content);
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    title.focus();
  };
  const openRun = (race, run, back) => {
    const facts = [
      ["id", run.id], ["stage", stages[run.stage]], ["status", run.status],
      ["reported epoch", run.epoch], [`validation ${race.metric}`, run.validation],
      [`test ${race.metric}`, run.stage === "tuning" ? "not shown: it decided nothing" : run.test],
      ...Object.entries(run.settings)];
    const length = Math.max(0, ...run.columns.map((column) => column[2].length));
    const epochs = Array.from({ length }, (_, i) => [i + 1, ...run.columns.map((column) => column[2][i])]);
    open(`${run.optimizer}, seed ${run.seed}`,
      back ? make("p", {}, make("button", { type: "button", onclick: back }, "← all its runs")) : "",
      run.error ? make("p", { class: "lost" }, run.error) : "",
      make("div", { class: "wide" }, table(["", ""], facts.map(([key, value]) => [key.replaceAll("_", " "), value]))),
      make("h3", {}, "Every epoch"),
      make("div", { class: "wide" },
        table(["epoch", ...run.columns.map(([split, metric]) => `${split} ${metric}`)], epochs)));
  };
  const opener = (race, run, back) => make("button",
    { type: "button", class: "run", title: run.id, onclick: () => openRun(race, run, back) }, run.id.slice(0, 8));
  const openOptimizer = (race, name) => {
    const back = () => openOptimizer(race, name);
    const runs = race.runs.filter((run) => run.optimizer === name);
    const list = (stage, score) => runs.filter((run) => run.stage === stage).map((run) =>
      [opener(race, run, back), run.seed, run.status, run.epoch, run[score], settings(run)]);
    const heads = (split) => ["run", "seed", "status", "epoch", `${split} ${race.metric}`, "settings"];
    const trials = list("tuning", "validation");
    open(name, make("h3", {}, "Final runs"),
      make("div", { class: "wide" }, table(heads("test"), list("final", "test"))),
      ...(trials.length ? [make("h3", {}, "Trials"),
        make("div", { class: "wide" }, table(heads("validation"), trials))] : []));
  };

  // The ranges of both axes that show the second half of all curves, where the differences are.
  const secondHalf = (traces, log) => {
    const last = traces.reduce((most, trace) => Math.max(most, trace.x.at(-1) ?? 0), 0);
    let [low, high] = [Infinity, -Infinity];
    for (const { x, y } of traces) {
      y.forEach((value, i) => {
        if (value === null || x[i] < last / 2 || (log && value <= 0)) return;
        [low, high] = [Math.min(low, value), Math.max(high, value)];
      });
    }
    if (low > high) return [undefined, undefined];
    const ends = log ? [Math.log10(low), Math.log10(high)] : [low, high];
    const room = 0.05 * (ends[1] - ends[0]) || 0.05;
    return [[last / 2, last], [ends[0] - room, ends[1] + room]];
  };

  const setUp = (article, race) => {
    const find = (selector) => article.querySelector(selector);
    for (const key of article.querySelectorAll(".key")) {
      const again = every.indexOf(key.dataset.key) >= light.length;
      drawn.set(key, () => {
        key.style.background = again ? "none" : colour(key.dataset.key);
        key.style.border = `2px ${again ? "dashed" : "solid"} ${colour(key.dataset.key)}`;
      });
      drawn.get(key).call();
      key.dataset.drawn = "yes";
    }
    for (const button of article.querySelectorAll("button.open"))
      button.addEventListener("click", () => openOptimizer(race, button.dataset.optimizer));

    const [curve, logY, closer, bands, each] =
      [".curve", ".log-y", ".closer", ".bands", ".each"].map(find);
    const order = (one) => [one.metric !== race.metric, ["validation", "test", "train"].indexOf(one.split)];
    const sorted = race.curves.map((one, i) => [order(one), i]).sort((a, b) =>
      a[0][0] - b[0][0] || a[0][1] - b[0][1]);
    for (const [, i] of sorted)
      curve.append(make("option", { value: i }, `${race.curves[i].split} ${race.curves[i].metric}`));
    const chosen = () => race.curves[curve.value];
    const epochs = (length) => Array.from({ length }, (_, i) => i + 1);
    const place = find(".curves");
    const drawCurves = () => {
      const one = chosen();
      const traces = [];
      if (!one) return;
      for (const name of race.optimizers) {
        const { mean, low, high } = one.bands[name];
        const x = epochs(mean.length);
        const group = { x, legendgroup: name, mode: "lines", hoverinfo: "skip", showlegend: false };
        if (bands.checked && low.some((value) => value !== null)) {
          const ends = logY.checked ? low.map((value) => (value > 0 ? value : null)) : low;
          traces.push({ ...group, y: ends, line: { width: 0 } });
          traces.push({ ...group, y: high, line: { width: 0 }, fill: "tonexty", fillcolor: faint(name) });
        }
        if (each.checked) {
          for (const run of race.runs) {
            if (run.stage !== "final" || run.optimizer !== name) continue;
            const column = run.columns.find(([split, metric]) => split === one.split && metric === one.metric);
            if (column) traces.push({ ...group, x: epochs(column[2].length), y: column[2],
              connectgaps: true, line: { ...line(name), width: 0.7 }, opacity: 0.6 });
          }
        }
        traces.push({ x, y: mean, name: plain(name), legendgroup: name, mode: mean.length > 1 ? "lines" : "markers",
          line: line(name), marker: { color: colour(name) }, hovertemplate: "%{y:.5g}<extra>" + plain(name) + "</extra>" });
      }
      const ranges = closer.checked ? secondHalf(traces, logY.checked) : [undefined, undefined];
      draw(place, traces, {
        xaxis: { title: { text: "epoch" },
          rangemode: "tozero", range: ranges[0] },
        yaxis: { title: { text: plain(`${one.split} ${one.metric}`) }, type: logY.checked ? "log" : "linear",
          range: ranges[1] },
      });
    };
    plot(place, drawCurves);
    const numbers = find(".numbers");
    const fill = () => {
      const one = chosen();
      if (!numbers.open || !one) return;
      const length = Math.max(0, ...race.optimizers.map((name) => one.bands[name].mean.length));
      numbers.querySelector(".wide").replaceChildren(table(
        ["epoch", ...race.optimizers],
        Array.from({ length }, (_, i) => [i + 1, ...race.optimizers.map((name) => one.bands[name].mean[i])])));
    };
    numbers.addEventListener("toggle", fill);
    for (const control of [curve, logY, closer, bands, each])
      control.addEventListener("change", () => { redraw(place); fill(); });

    const shownRuns = race.runs.filter((run) => run.settings.lr > 0 && run.stage !== "length" &&
      (run.stage === "tuning" ? run.validation : run.test) !== null);
    const scoreOf = (run) => (run.stage === "tuning" ? run.validation : run.test);
    // The same axes for all, so that they compare at a glance; scores far below the rest are cut.
    const wide = (values) => {
      const sorted = [...values].sort((a, b) => (race.larger ? b - a : a - b));
      const [best, most] = [sorted[0], sorted[Math.floor(0.8 * (sorted.length - 1))]];
      const room = 0.08 * Math.abs(best - most) || 0.05 * Math.abs(best) || 0.05;
      return race.larger ? [most - room, best + room] : [best - room, most + room];
    };
    const scoreRange = shownRuns.length ? wide(shownRuns.map(scoreOf)) : undefined;
    for (const place of article.querySelectorAll(".lr")) {
      const name = place.dataset.optimizer;
      plot(place, () => {
        const mine = shownRuns.filter((run) => run.optimizer === name);
        const tried = mine.filter((run) => run.stage === "tuning");
        const finals = mine.filter((run) => run.stage !== "tuning");
        const best = new Map();
        for (const run of tried) {
          const known = best.get(run.settings.lr);
          const better = race.larger ? run.validation > known : run.validation < known;
          if (known === undefined || better) best.set(run.settings.lr, run.validation);
        }
        const points = [...best].sort((a, b) => a[0] - b[0]);
        const rates = [...new Set(finals.map((run) => run.settings.lr))].sort((a, b) => a - b);
        const at = (lr) => finals.filter((run) => run.settings.lr === lr).map((run) => run.test);
        const ink = getComputedStyle(document.body).color;
        const hover = { hovertemplate: "%{y:.5g}<br>%{text}<extra></extra>", showlegend: false, mode: "markers" };
        const dots = (runs, more) => ({ x: runs.map((run) => run.settings.lr), y: runs.map(scoreOf),
          text: runs.map((run) => plain(settings(run))), ...hover, ...more });
        draw(place, [
          { x: points.map((p) => p[0]), y: points.map((p) => p[1]), mode: "lines", line: { ...line(name), width: 1.5 },
            hoverinfo: "skip", showlegend: false },
          dots(tried.filter((run) => !run.chosen), { marker: { color: "rgba(0,0,0,0)", size: 8, symbol: "circle",
            line: { color: colour(name), width: 2 } } }),
          dots(finals, { opacity: 0.55, marker: { color: ink, size: 4 } }),
          { x: rates, y: rates.map((lr) => at(lr).reduce((a, b) => a + b) / at(lr).length), ...hover,
            text: rates.map((lr) => `mean of ${at(lr).length} seeds at lr ${shown(lr)}`),
            marker: { color: ink, size: 14, symbol: "line-ew", line: { color: ink, width: 2 } } },
          dots(tried.filter((run) => run.chosen), { marker: { color: colour(name), size: 13, symbol: "star" } }),
        ], {
          xaxis: { title: { text: "lr" }, type: "log", exponentformat: "power", dtick: 1 },
          yaxis: { title: { text: plain(race.metric) }, range: scoreRange },
        });
      });
    }
    plot(find(".budgets"), () => {
      const means = race.budgets.map((one) => one.scores.reduce((a, b) => a + b, 0) / one.scores.length);
      const base = race.baseline;
      const seeds = race.budgets.flatMap((one) => one.scores.map((score) => [one.factor, score]));
      const at = (name) => race.runs.filter((run) => run.stage === "final" && run.optimizer === name && run.test !== null)
        .map((run) => run.test);
      const others = race.optimizers.filter((name) => name !== base && at(name).length);
      const ends = [race.budgets[0].factor, race.budgets.at(-1).factor];
      draw(find(".budgets"), [
        { x: seeds.map((p) => p[0]), y: seeds.map((p) => p[1]), mode: "markers", opacity: 0.5, showlegend: false,
          marker: { color: colour(base), size: 5 }, hoverinfo: "skip" },
        { x: race.budgets.map((one) => one.factor), y: means, name: plain(base), mode: "lines+markers", line: line(base),
          marker: { size: 9 }, hovertemplate: "%{y:.5g} at %{x} times the length<extra>" + plain(base) + "</extra>" },
        ...others.map((name) => {
          const mean = at(name).reduce((a, b) => a + b) / at(name).length;
          return { x: ends, y: [mean, mean], mode: "lines", name: `${plain(name)}, 1x`, line: { ...line(name), dash: "dash" },
            hovertemplate: "%{y:.5g}<extra>" + plain(name) + "</extra>" };
        }),
      ], {
        xaxis: { title: { text: `length of training of ${plain(base)}, times the usual` }, type: "log",
          tickvals: race.budgets.map((one) => one.factor), ticktext: race.budgets.map((one) => shown(one.factor)) },
        yaxis: { title: { text: plain(`test ${race.metric}`) } },
      });
    });
    plot(find(".best"), () => {
      const names = race.optimizers.filter((name) => race.best[name]);
      // Where the trials do not bound the median, the band goes on to the best or worst of them.
      const scores = race.runs.filter((run) => run.stage === "tuning" && run.validation !== null).map((run) => run.validation);
      const [least, most] = [Math.min(...scores), Math.max(...scores)];
      const bands = names.filter((name) => race.trial_bands?.[name]).flatMap((name) => {
        const { low, high } = race.trial_bands[name];
        const x = low.map((_, i) => i + 1);
        const shape = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: name };
        return [{ ...shape, y: low.map((value) => value ?? least) },
          { ...shape, y: high.map((value) => value ?? most), fill: "tonexty", fillcolor: faint(name) }];
      });
      const traces = names.map((name) => ({ legendgroup: name,
        x: race.best[name].map((_, i) => i + 1), y: race.best[name], name: plain(name), line: line(name),
        mode: "lines+markers", hovertemplate: "%{y:.5g} after %{x}<extra>" + plain(name) + "</extra>" }));
      draw(find(".best"), [...bands, ...traces], {
        xaxis: { title: { text: "trials" }, dtick: 1 },
        yaxis: { title: { text: plain(`validation ${race.metric}`) } },
      });
    });

    const body = find(".runs tbody");
    const [byOptimizer, byStage, byStatus] = [".by-optimizer", ".by-stage", ".by-status"].map(find);
    const [more, count] = [find(".more"), find(".count")];
    let limit = PAGE;
    const list = () => {
      const wanted = race.runs.filter((run) =>
        (!byOptimizer.value || run.optimizer === byOptimizer.value) &&
        (!byStage.value || run.stage === byStage.value) &&
        (!byStatus.value || run.status === byStatus.value));
      body.replaceChildren(...wanted.slice(0, limit).map((run) => make("tr", {},
        make("td", {}, opener(race, run)),
        make("td", {}, stages[run.stage]),
        make("td", {}, run.optimizer),
        make("td", { class: "number" }, shown(run.seed)),
        make("td", ["done", "stopped"].includes(run.status) ? {} : { class: "lost" }, run.status),
        make("td", { class: "number" }, shown(run.epoch)),
        make("td", { class: "number" }, shown(run.validation)),
        make("td", { class: "number" }, run.stage === "tuning" ? "" : shown(run.test)),
        make("td", { class: "settings" }, settings(run)))));
      const visible = Math.min(limit, wanted.length);
      count.textContent = `${visible} of ${wanted.length} runs`;
      more.hidden = visible === wanted.length;
    };
    more.addEventListener("click", () => { limit = Math.max(200, 5 * limit); list(); });
    for (const control of [byOptimizer, byStage, byStatus])
      control.addEventListener("change", () => { limit = PAGE; list(); });
    list();
  };

  document.querySelectorAll("article.race").forEach((article) =>
    setUp(article, data.races[article.dataset.race]));
  const profile = document.getElementById("profile");
  plot(profile, () => {
    const names = Object.keys(data.profile.shares);
    draw(profile, names.map((name) => ({ x: data.profile.taus, y: data.profile.shares[name],
      name: plain(name), line: { ...line(name), shape: "hv" }, mode: "lines" })), {
      xaxis: { title: { text: "τ, times the epochs of the fastest" } },
      yaxis: { title: { text: "share of workloads" }, range: [-0.03, 1.03] },
    });
  });
  // Paper has no view to come into.
  window.addEventListener("beforeprint", () => {
    for (const place of drawn.keys()) if (!place.dataset.drawn) drawNow(place);
  });
  isDark.addEventListener("change", () => { for (const place of drawn.keys()) redraw(place); });
})();
