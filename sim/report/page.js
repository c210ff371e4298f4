// Draws the charts of the page. What it draws from is in the page, as JSON.
//
// On <html> it leaves for tests: data-charts (how many were drawn), data-error
// (what went wrong), data-overflow (pixels by which the page is too wide) and
// data-scheme.
'use strict';
(() => {
const root = document.documentElement;

function fail(text) {
  root.dataset.error = (root.dataset.error ? root.dataset.error + '; ' : '') + text;
}
addEventListener('error', e => fail(e.message));
addEventListener('unhandledrejection', e => fail(String(e.reason)));
document.addEventListener('securitypolicyviolation', e => fail('blocked ' + e.effectiveDirective));

const data = JSON.parse(document.getElementById('data').textContent);
const charts = [];
const drawn = new Set();

// ---- Words and colours

// num and percent have their twins in numbers.go.
function num(v) {
  if (v == null) return '-';
  const a = Math.abs(v);
  if (a < 1e-6) return '0';
  return v.toLocaleString('en-US', {
    roundingMode: 'halfEven',
    ...a >= 100 ? {maximumFractionDigits: 0} : a >= 1 ? {maximumFractionDigits: 2} : {maximumSignificantDigits: 4},
  });
}

function percent(v) {
  return v.toLocaleString('en-US', {roundingMode: 'halfEven', useGrouping: false, minimumFractionDigits: 2, maximumFractionDigits: 2}) + ' %';
}

function span(from, to) {
  return to > from ? `${num(from)} to ${num(to)} s` : `${num(from)} s`;
}

// Canvases do not follow the style sheet by themselves: colours are read from
// it, and read again when the scheme changes.
const dark = matchMedia('(prefers-color-scheme: dark)');
let colours = {};
function color(name) {
  return colours[name] ||= getComputedStyle(root).getPropertyValue('--' + name).trim();
}
function recolour() {
  colours = {};
  root.dataset.scheme = dark.matches && !('print' in root.dataset) ? 'dark' : 'light';
  for (const c of charts) c.u.redraw();
}

const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const VARIANT = ['a', 'b']; // colours, in the order of the variants

function element(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text != null) e.textContent = text;
  return e;
}

// ---- One chart

// chart draws into box, and lets a reader pick its items, by pointer, touch or
// keys. pick has: count; nearest(u, x, y), the item at a place, or -1; place(u, i),
// where item i is; tell(i), {title, rows of [name, value], note}; rule, to mark
// the item by a line instead of a ring. Places are CSS pixels in the plot.
// Charts of one group mark the same item.
function chart(box, options, columns, pick, group = []) {
  const self = {box, pick, selected: -1};
  const height = () => options.height(box.clientWidth);
  self.u = new uPlot({
    width: box.clientWidth,
    height: height(),
    padding: [options.top ?? 12, 14, 0, 0],
    legend: {show: false},
    cursor: {x: false, y: false, points: {show: false}, drag: {x: !!options.zoom, y: false}},
    scales: options.scales,
    axes: options.axes,
    series: options.series,
    hooks: {
      drawClear: options.under ? [pen(options.under)] : [],
      draw: [pen(options.over ?? (() => {})), () => { drawn.add(self); root.dataset.charts = drawn.size; }],
      setScale: [() => self.mark()],
    },
  }, columns, box);

  const mark = element('div', pick.rule ? 'rule' : 'ring');
  const tip = element('div', 'tip');
  tip.setAttribute('role', 'status');
  mark.hidden = tip.hidden = true;
  self.u.over.append(mark);
  box.append(tip);

  self.mark = () => {
    mark.hidden = true;
    if (self.selected < 0) return null;
    const {offsetWidth: w, offsetHeight: h} = self.u.over;
    const [x, y] = pick.place(self.u, self.selected);
    if (!(x >= 0 && x <= w && (pick.rule || y >= 0 && y <= h))) return null;
    mark.hidden = false;
    mark.style.left = x + 'px';
    if (!pick.rule) mark.style.top = y + 'px';
    return [x, pick.rule ? h / 4 : y];
  };
  self.select = (i, talks) => {
    self.selected = i;
    tip.hidden = true;
    const at = self.mark();
    if (!at || !talks) return;
    const {title, rows, note} = pick.tell(i);
    const list = element('dl');
    for (const [name, value] of rows) list.append(element('dt', '', name), element('dd', '', value));
    tip.replaceChildren(element('b', '', title), list, ...(note ? [element('i', '', note)] : []));
    tip.hidden = false;
    const x = at[0] + self.u.over.offsetLeft, y = at[1] + self.u.over.offsetTop;
    const beside = x + 16 + tip.offsetWidth <= box.clientWidth ? x + 16 : x - 16 - tip.offsetWidth;
    const top = beside < 0 && !pick.rule ? y + 18 : y - tip.offsetHeight / 2; // where it is too narrow: below
    tip.style.left = Math.max(0, Math.min(beside, box.clientWidth - tip.offsetWidth)) + 'px';
    tip.style.top = Math.max(0, Math.min(top, box.clientHeight - tip.offsetHeight)) + 'px';
  };
  const select = i => { for (const c of group) c.select(i, c === self); };

  const point = e => {
    const r = self.u.over.getBoundingClientRect();
    select(pick.nearest(self.u, e.clientX - r.left, e.clientY - r.top));
  };
  self.u.over.addEventListener('pointermove', point);
  self.u.over.addEventListener('pointerdown', point);
  self.u.over.addEventListener('pointerleave', e => { if (e.pointerType === 'mouse') select(-1); });
  box.addEventListener('blur', () => select(-1));
  box.addEventListener('keydown', e => {
    const i = self.selected, last = pick.count - 1;
    const to = {
      ArrowRight: i + 1, ArrowLeft: i < 0 ? last : i - 1, PageDown: i + 10, PageUp: i - 10,
      Home: 0, End: last, Escape: -1,
    }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    if (e.key === 'Escape') return select(-1);
    // What this chart does not show, since its figure is unknown, is passed over.
    const shown = j => j === i || pick.place(self.u, j).every(Number.isFinite);
    const way = ['ArrowRight', 'PageDown', 'Home'].includes(e.key) ? 1 : -1;
    let next = Math.max(0, Math.min(to, last));
    while (next >= 0 && next <= last && !shown(next)) next += way;
    if (next >= 0 && next <= last) select(next);
  });

  self.fit = (width = box.clientWidth) => {
    if (!width || width === self.u.width) return;
    select(-1);
    self.u.setSize({width, height: options.height(width)});
  };
  group.push(self);
  charts.push(self);
  return self;
}

// pen lets f(ctx, u, w, h) draw in CSS pixels, from the top left corner of the
// plot, which is w wide and h high. It is not clipped: see clip.
function pen(f) {
  return u => {
    const {ctx} = u, k = devicePixelRatio;
    ctx.save();
    ctx.translate(u.bbox.left, u.bbox.top);
    ctx.scale(k, k);
    ctx.font = FONT;
    f(ctx, u, u.bbox.width / k, u.bbox.height / k);
    ctx.restore();
  };
}

function clip(ctx, w, h, draw) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, 0, w, h);
  ctx.clip();
  draw();
  ctx.restore();
}

function line(ctx, ...points) {
  ctx.beginPath();
  points.forEach(([x, y], i) => i ? ctx.lineTo(x, y) : ctx.moveTo(x, y));
  ctx.stroke();
}

function shape(ctx, kind, x, y, r) {
  ctx.beginPath();
  if (kind === 'circle') {
    ctx.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  const corners = kind === 'star' ? 10 : 4;
  for (let i = 0; i < corners; i++) {
    const turn = Math.PI * (2 * i / corners - .5);
    const reach = kind === 'star' && i % 2 ? r * .45 : kind === 'star' ? r : r * 1.15;
    ctx.lineTo(x + reach * Math.cos(turn), y + reach * Math.sin(turn));
  }
  ctx.closePath();
}

const mesh = more => ({stroke: () => color('mesh'), width: 1, ...more});
const tick = more => ({stroke: () => color('edge'), width: 1, size: 5, ...more});

function axis(more) {
  return {
    stroke: () => color('soft'),
    font: FONT,
    labelFont: FONT,
    size: 26, // of an axis with one line of figures
    labelSize: 20,
    gap: 4,
    grid: mesh(),
    ticks: tick(),
    ...more,
  };
}

// logarithmic has the ticks of logTicks, where uPlot would leave some out; from
// least on, after those in first.
function logarithmic(fit, least = 0, first = []) {
  const all = (u, splits) => splits;
  return {splits: (u, k, min, max) => [...first, ...logTicks(fit(u), Math.max(min, least), max)], filter: all, grid: mesh({filter: all}), ticks: tick({filter: all})};
}

// valueAxis is as wide as its figures.
function valueAxis(write = num, more = {}) {
  return axis({
    space: 40,
    ...more,
    values: (u, splits) => splits.map(write),
    size: (u, values) => values ? 16 + 7.4 * Math.max(2, ...values.map(v => v.length)) : 40,
  });
}

// logTicks are the ticks of a logarithmic axis: as many of 1, 2, 3, ... 9 times a
// power of ten as fit.
function logTicks(fit, min, max) {
  let out = [];
  for (const digits of [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    out = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.log10(max); e++) {
      for (const n of digits) {
        const v = Number(`${n}e${e}`);
        if (v >= min && v <= max) out.push(v);
      }
    }
    if (out.length <= fit) break;
  }
  return out;
}

const most = (...lists) => lists.flat().reduce((m, v) => v > m ? v : m, 0);

// ---- Admitted over time

function timeline(box, d) {
  const {step} = d;
  const lines = [];
  const add = (key, name, values, style) => { if (values.length) lines.push({key, name, values, style}); };
  add('offered', 'offered', d.offered, {stroke: () => color('offered'), width: 1.5});
  add('ideal', 'ideal', d.ideal, {stroke: () => color('ideal'), width: 6, alpha: .45});
  d.admitted.forEach((values, i) => add('admitted' + i, data.variants[i], values,
    {stroke: () => color(VARIANT[i]), width: i ? 1.5 : 2, dash: i ? [10, 3] : []}));
  add('limit', 'limit', d.limit, {stroke: () => color('ink'), width: 1.5, dash: [4, 3], paths: steps});

  // A limit holds for the whole of its step, and jumps between two.
  function steps(u, k, from, to) {
    const stroke = new Path2D();
    let joined = false;
    for (let i = from; i <= to; i++) {
      const v = u.data[k][i];
      if (v == null) { joined = false; continue; }
      const y = u.valToPos(v, 'y', true);
      const left = u.valToPos(i * step, 'x', true), right = u.valToPos((i + 1) * step, 'x', true);
      joined ? stroke.lineTo(left, y) : stroke.moveTo(left, y);
      stroke.lineTo(right, y);
      joined = true;
    }
    return {stroke};
  }

  const count = Math.max(...lines.map(l => l.values.length));
  const middle = Array.from({length: count}, (_, i) => (i + .5) * step);
  const padded = lines.map(l => Array.from(middle, (_, i) => l.values[i] ?? null));

  // Demand far above the limit would press all else onto the axis.
  const rest = most(...lines.filter(l => l.key !== 'offered').map(l => l.values));
  const crowds = l => l.key === 'offered' && rest > 0 && most(l.values) > 4 * rest;

  // What is drawn last lies on top; what is told is in the order of the legend.
  const place = {offered: 0, limit: 1, ideal: 2};
  const told = lines.map((l, k) => k).sort((a, b) => (place[lines[a].key] ?? 3) - (place[lines[b].key] ?? 3));

  const happening = i => d.events.filter(e => e.at < (i + 1) * step && Math.max(e.until, e.at + step / 1e6) > i * step);

  const self = chart(box, {
    height: w => Math.max(260, Math.min(400, w * .4)),
    top: d.events.length ? 26 : 12,
    zoom: true,
    scales: {
      x: {time: false, range: (u, min, max) => min === middle[0] && max === middle[count - 1] ? [0, count * step] : [min, max]},
      y: {range: (u, min, max) => [0, (max || 1) * 1.06]},
    },
    axes: [axis({values: (u, splits) => splits.map(num), space: 60}), valueAxis()],
    series: [{}, ...lines.map(l => ({...l.style, show: !crowds(l), spanGaps: false,
      // A value between two gaps has no line to be seen by.
      points: {show: count === 1, size: 7, fill: l.style.stroke}}))],
    under: (ctx, u, w, h) => clip(ctx, w, h, () => {
      ctx.fillStyle = color('out');
      ctx.strokeStyle = color('soft');
      ctx.setLineDash([2, 2]);
      for (const e of d.events) {
        const x = u.valToPos(e.at, 'x');
        ctx.fillRect(x, 0, u.valToPos(e.until, 'x') - x, h);
        ctx.globalAlpha = d.events.length > w / 24 ? .3 : .8; // many would be a curtain
        line(ctx, [x, 0], [x, h]);
        ctx.globalAlpha = 1;
      }
    }),
    over: (ctx, u, w) => {
      ctx.fillStyle = color('soft');
      ctx.textAlign = 'center';
      ctx.textBaseline = 'bottom';
      let free = -Infinity; // from where on a number has room
      d.events.forEach((e, i) => {
        const x = u.valToPos(e.at, 'x');
        if (!(x >= -.5 && x <= w + .5)) return;
        const text = String(i + 1), half = ctx.measureText(text).width / 2 + 5;
        ctx.beginPath();
        ctx.moveTo(x - 4, -7); ctx.lineTo(x + 4, -7); ctx.lineTo(x, 0);
        ctx.fill();
        if (x - half < free) return;
        ctx.fillText(text, x, -8);
        free = x + half;
      });
    },
  }, [middle, ...padded], {
    count,
    rule: true,
    nearest: (u, x) => u.posToIdx(x),
    place: (u, i) => [u.valToPos(middle[i], 'x'), 0],
    tell: i => ({
      title: span(i * step, (i + 1) * step),
      rows: told.map(k => [lines[k].name, padded[k][i]]).map(([name, v]) => [name, num(v) + (v == null ? '' : '/s')]),
      note: happening(i).map(e => e.text).join('; '),
    }),
  });

  for (const button of document.querySelectorAll('[data-legend="timeline"] button')) {
    const k = 1 + lines.findIndex(l => l.key === button.dataset.line);
    if (k === 0) { // nothing of it is known
      button.parentNode.remove();
      continue;
    }
    button.setAttribute('aria-pressed', self.u.series[k].show);
    if (!self.u.series[k].show) button.title = `hidden, because it goes up to ${num(most(lines[k - 1].values))} tokens/s`;
    button.addEventListener('click', () => {
      const show = !self.u.series[k].show;
      self.u.setSeries(k, {show});
      button.setAttribute('aria-pressed', show);
    });
  }
}

// ---- Shares

function shares(tokensBox, partsBox, d) {
  const count = d.names.length;
  const rank = d.names.map((_, i) => i);
  const parts = d.admitted.map(list => list.map((v, i) => v != null && d.fair[i] > 0 ? 100 * v / d.fair[i] : null));
  const pair = d.admitted.length > 1;
  const group = [];

  // Names where they have room, else places.
  function splits(u) {
    const slot = u.bbox.width / devicePixelRatio / count;
    u.ctx.save();
    u.ctx.font = FONT;
    u.named = d.names.every(n => u.ctx.measureText(n).width + 8 < slot);
    u.ctx.restore();
    if (u.named) return rank;
    const every = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find(n => n * slot >= 34) ?? count;
    return rank.filter(i => every === 1 || (i + 1) % every === 0 || i === 0 && every > 2);
  }
  const processes = axis({
    splits,
    values: (u, at) => at.map(i => u.named ? d.names[i] : String(i + 1)),
    label: 'processes, the largest fair share first',
    grid: {show: false},
  });
  const common = {
    height: w => Math.max(240, Math.min(320, w * .5)),
    series: [{}, {paths: () => null, points: {show: false}}],
  };
  const x = {time: false, range: () => [-.5, count - .5]};
  const tell = i => ({
    title: d.names[i],
    rows: [
      ['offered', num(d.offered[i])],
      ['fair share', num(d.fair[i])],
      ...d.admitted.flatMap((list, k) => [
        [data.variants[k], num(list[i])],
        ['of the fair share', parts[k][i] == null ? '-' : percent(parts[k][i])],
      ]),
    ],
  });
  const nearest = (u, px) => Math.max(0, Math.min(count - 1, Math.round(u.posToVal(px, 'x'))));
  // Where the mark of variant k stands, beside the other's.
  const beside = (slot, k) => pair && slot >= 8 ? (k - .5) * Math.min(slot * .4, 22) : 0;

  const high = most(d.fair, ...d.admitted);
  const asked = most(d.offered);
  // Where most shares would be too small to see beside the largest.
  const sorted = d.fair.filter(v => v > 0); // as the processes are
  const log = sorted.length > 0 && sorted[0] > 40 * sorted[sorted.length >> 1];
  const least = Math.min(...[d.fair, ...d.admitted].flat().filter(v => v > 0)) / 1.5;
  const top = log ? Math.max(high, asked) * 1.5 : asked > 4 * high && high > 0 ? high * 1.3 : Math.max(high, asked) * 1.05 || 1;
  const remark = log ? 'on a logarithmic axis' : top < asked ? `(what was offered, up to ${num(asked)}, is cut off at the top)` : '';
  tokensBox.parentNode.querySelector('.remark').textContent = remark;
  chart(tokensBox, {
    ...common,
    scales: {x, y: log ? {distr: 3, range: () => [least, top]} : {range: () => [0, top]}},
    axes: [processes, valueAxis(num, log ? logarithmic(u => u.bbox.height / devicePixelRatio / 28) : {})],
    over: (ctx, u, w, h) => clip(ctx, w, h, () => {
      const slot = w / count, y = v => v > 0 ? u.valToPos(v, 'y') : h;
      const wide = Math.max(1, Math.min(slot * .8, 72)), narrow = Math.max(1, wide * (pair ? .36 : .5));
      const bar = (center, width, v) => ctx.fillRect(center - width / 2, y(v), width, h - y(v));
      for (const i of rank) {
        const center = u.valToPos(i, 'x');
        ctx.fillStyle = color('pale');
        if (d.offered[i] != null) bar(center, slot < 4 ? slot + .5 : wide, d.offered[i]);
      }
      for (const i of rank) {
        const center = u.valToPos(i, 'x');
        d.admitted.forEach((list, k) => {
          if (list[i] == null) return;
          ctx.fillStyle = color(VARIANT[k]);
          if (log || pair && slot < 8) { // bars have no meaning or no room
            shape(ctx, k ? 'diamond' : 'circle', center, y(list[i]), 1.8);
            ctx.fill();
          } else if (pair) {
            bar(center + (k - .5) * wide * .44, narrow, list[i]);
          } else {
            bar(center, slot < 4 ? slot + .5 : narrow, list[i]);
          }
        });
      }
      ctx.strokeStyle = color('ink');
      ctx.lineWidth = slot < 4 ? 1.2 : 2;
      for (const i of rank) {
        if (d.fair[i] == null) continue;
        const center = u.valToPos(i, 'x'), half = slot < 4 ? slot / 2 + .5 : wide / 2;
        line(ctx, [center - half, y(d.fair[i])], [center + half, y(d.fair[i])]);
      }
    }),
  }, [rank, d.fair], {
    count, tell, nearest,
    place: (u, i) => [u.valToPos(i, 'x'), u.valToPos(Math.max(d.admitted[0][i] ?? d.fair[i] ?? 0, log ? least : 0), 'y')],
  }, group);

  const known = parts.flat().filter(v => v != null);
  const low = Math.min(100, ...known), up = Math.max(100, ...known), room = Math.max(2, (up - low) * .12);
  chart(partsBox, {
    ...common,
    scales: {x, y: {range: () => [Math.max(0, low - room), up + room]}},
    axes: [processes, valueAxis(v => num(v) + ' %')],
    over: (ctx, u, w) => {
      const slot = w / count, full = u.valToPos(100, 'y');
      const r = Math.max(1.5, Math.min(slot * .3, 5.5));
      ctx.strokeStyle = color('ink');
      ctx.lineWidth = 1.5;
      line(ctx, [0, full], [w, full]);
      parts.forEach((list, k) => {
        ctx.strokeStyle = ctx.fillStyle = color(VARIANT[k]);
        list.forEach((v, i) => {
          if (v == null) return;
          const at = u.valToPos(i, 'x') + beside(slot, k), y = u.valToPos(v, 'y');
          if (slot >= 6) line(ctx, [at, full], [at, y]);
          shape(ctx, k ? 'diamond' : 'circle', at, y, r);
          ctx.fill();
        });
      });
    },
  }, [rank, rank.map(() => 100)], {
    count, tell, nearest,
    place: (u, i) => [u.valToPos(i, 'x') + beside(u.over.offsetWidth / count, 0), u.valToPos(parts[0][i] ?? 100, 'y')],
  }, group);
}

// ---- What was tried

const APART = 9; // pixels between two turns of a spiral

function front(box, d, field, bound, group) {
  const points = d.points;
  const positive = points.map(p => p.calls).filter(v => v > 0);
  if (d.maxCalls > 0) positive.push(d.maxCalls);
  const least = positive.length ? Math.min(...positive) : .5;
  // A logarithmic axis has no 0: what makes no calls stands at its left end.
  const zero = points.some(p => p.calls != null && p.calls <= 0);
  const calls = p => p.calls == null ? null : p.calls > 0 ? p.calls : least / 2;
  const xs = [...points.map(calls).filter(v => v != null), least];
  const left = Math.min(...xs), right = Math.max(...xs, d.maxCalls > 0 ? d.maxCalls : 0);
  const aside = Math.max(1.25, (right / left) ** .06);

  const ys = points.filter(p => calls(p) != null && p[field] != null).map(p => p[field]);
  if (bound > 0) ys.push(bound);
  const low = Math.min(...ys), high = Math.max(...ys), room = Math.max((high - low) * .09, .002);

  const kind = p => p.recommended ? 'star' : p.classic ? 'diamond' : 'circle';
  const size = p => p.recommended ? 10 : p.classic || p.onFront ? 5.5 : 4.5;
  const rank = p => (p.recommended ? 4 : 0) + (p.classic ? 2 : 0) + (p.onFront ? 1 : 0);
  const shown = points.filter(p => calls(p) != null && p[field] != null).sort((a, b) => rank(a) - rank(b));
  // Marks that would lie on each other are spread on a spiral around their place, those
  // that matter more nearer to it.
  let spots = new Map(), spread = '';
  const place = (u, p) => {
    const now = [u.bbox.width, u.bbox.height].join();
    if (now !== spread) {
      [spots, spread] = [new Map(), now];
      const taken = [];
      for (const q of [...shown].reverse()) {
        const x = u.valToPos(calls(q), 'x'), y = u.valToPos(q[field], 'y');
        let spot = [x, y];
        for (let n = 1; n < 60 && taken.some(t => Math.hypot(t[0] - spot[0], t[1] - spot[1]) < .85 * (t[2] + size(q))); n++) {
          const r = APART * .62 * Math.sqrt(n), turn = n * 2.39996; // the golden angle
          spot = [x + r * Math.cos(turn), y + r * Math.sin(turn)];
        }
        taken.push([...spot, size(q)]);
        spots.set(q, spot);
      }
    }
    return spots.get(p);
  };

  // Of those on the front, those that are best in what this chart shows: joined by
  // calls alone, a front of three figures would be a zigzag.
  const best = [];
  for (const p of shown.filter(p => p.onFront).sort((p, q) => calls(p) - calls(q) || q[field] - p[field])) {
    if (!best.length || p[field] > best.at(-1)[field]) best.push(p);
  }

  // names writes what the bound and the recommended and classic points are, each
  // where it covers the fewest others, or not at all where it would cover many.
  function names(ctx, u, w, h) {
    const taken = [];
    const at = shown.map(p => place(u, p));
    const hits = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    ctx.textBaseline = 'middle';
    ctx.textAlign = 'left';
    const write = (text, ink, most, places) => {
      const width = ctx.measureText(text).width;
      let spot = null, fewest = most + 1;
      for (const [tx, ty] of places(width)) {
        const frame = [tx - 2, ty - 8, tx + width + 2, ty + 8];
        if (frame[0] < 0 || frame[1] < -4 || frame[2] > w || frame[3] > h || taken.some(t => hits(t, frame))) continue;
        const covered = at.filter(([px, py]) => hits(frame, [px - 5, py - 5, px + 5, py + 5])).length;
        if (covered < fewest) [spot, fewest] = [{tx, ty, frame}, covered];
      }
      if (!spot) return;
      taken.push(spot.frame);
      ctx.lineWidth = 4;
      ctx.lineJoin = 'round';
      ctx.strokeStyle = color('paper'); // a halo, where a line runs behind
      ctx.strokeText(text, spot.tx, spot.ty);
      ctx.fillStyle = ink;
      ctx.fillText(text, spot.tx, spot.ty);
    };
    for (const p of [...shown].reverse().filter(p => p.recommended || p.classic)) {
      const [x, y] = place(u, p), gap = size(p) + 5;
      const text = p.recommended ? 'recommended' : p.label.length > 32 ? p.label.slice(0, 31) + '…' : p.label;
      ctx.font = p.recommended ? 'bold ' + FONT : FONT;
      write(text, color('ink'), p.recommended ? points.length : 2, width => [
        [x + gap, y], [x - gap - width, y], [x - width / 2, y - gap - 6], [x - width / 2, y + gap + 6],
        [x + gap, y - 14], [x + gap, y + 14], [x - gap - width, y - 14], [x - gap - width, y + 14]]);
    }
    if (bound > 0) {
      const y = u.valToPos(bound, 'y');
      ctx.font = FONT;
      write('at least ' + num(bound), color('soft'), 2, width => [y + 10, y - 10].flatMap(ty => [[6, ty], [w - width - 6, ty], [w / 3, ty]]));
    }
  }

  chart(box, {
    height: w => Math.max(300, Math.min(420, w * .66)),
    top: 24,
    scales: {
      x: {time: false, distr: 3, range: () => [left / aside, right * aside]},
      y: {range: () => [low - room, high + room]},
    },
    axes: [
      axis({
        ...logarithmic(u => u.bbox.width / devicePixelRatio / 52, zero ? least : 0, zero ? [left] : []),
        values: (u, splits) => splits.map(v => zero && v === left ? '0' : num(v)),
        label: 'Redis calls for each request',
      }),
      // What is a part of 1 has no ticks above it.
      valueAxis(v => v > 1.0000001 ? '' : num(v)),
    ],
    series: [{}, {paths: () => null, points: {show: false}}],
    under: (ctx, u, w, h) => {
      const wall = d.maxCalls > 0 ? u.valToPos(d.maxCalls, 'x') : w, floor = bound > 0 ? u.valToPos(bound, 'y') : h;
      ctx.fillStyle = color('out');
      ctx.fillRect(wall, 0, w - wall, h);
      ctx.fillRect(0, floor, wall, h - floor);
    },
    over: (ctx, u, w, h) => {
      ctx.strokeStyle = ctx.fillStyle = color('soft');
      ctx.lineWidth = 1.5;
      ctx.setLineDash([6, 4]);
      if (d.maxCalls > 0) {
        const x = u.valToPos(d.maxCalls, 'x'), text = 'at most ' + num(d.maxCalls);
        line(ctx, [x, 0], [x, h]);
        ctx.textAlign = 'center';
        ctx.textBaseline = 'bottom';
        const half = ctx.measureText(text).width / 2;
        ctx.fillText(text, Math.max(half, Math.min(x, w - half)), -5);
      }
      if (bound > 0) {
        const y = u.valToPos(bound, 'y');
        line(ctx, [0, y], [w, y]);
      }
      ctx.setLineDash([]);

      ctx.strokeStyle = color('a');
      line(ctx, ...best.map(p => place(u, p)));
      for (const p of shown) {
        const paint = color(p.recommended ? 'ideal' : p.classic ? 'b' : 'a');
        shape(ctx, kind(p), ...place(u, p), size(p));
        ctx.globalAlpha = p.onFront || p.recommended || p.classic ? 1 : .45;
        ctx.lineWidth = 1.6;
        ctx.strokeStyle = p.recommended ? color('ink') : paint;
        ctx.fillStyle = p.qualifies ? paint : color('paper');
        if (p.qualifies || ctx.globalAlpha === 1) ctx.fill();
        ctx.stroke();
        ctx.globalAlpha = 1;
      }
      names(ctx, u, w, h);
    },
  }, [[left, right], [low, high]], {
    count: points.length,
    nearest: (u, x, y) => {
      let found = -1, close = 30;
      points.forEach((p, i) => {
        if (calls(p) == null || p[field] == null) return;
        const [px, py] = place(u, p), far = Math.hypot(px - x, py - y);
        if (far < close) [found, close] = [i, far];
      });
      return found;
    },
    place: (u, i) => calls(points[i]) == null || points[i][field] == null ? [NaN, NaN] : place(u, points[i]),
    tell: i => {
      const p = points[i];
      const tags = [p.recommended && 'recommended', p.onFront && 'on the front', p.classic && 'classic', p.qualifies ? 'qualifies' : 'does not qualify'];
      return {
        title: p.label,
        rows: [
          ['calls for each request', num(p.calls)],
          ['fairness', num(p.fairness)],
          ['utilisation', num(p.utilisation)],
          ['overshoot', num(p.overshoot) + (p.overshoot == null ? '' : ' tokens')],
        ],
        note: tags.filter(Boolean).join(', '),
      };
    },
  }, group);
}

// ---- The page

root.dataset.charts = 0;
recolour();
const box = name => document.querySelector(`[data-chart="${name}"]`);
if (data.timeline) timeline(box('timeline'), data.timeline);
if (data.shares) shares(box('tokens'), box('parts'), data.shares);
if (data.front) {
  const group = [];
  if (box('fairness')) front(box('fairness'), data.front, 'fairness', data.front.minFairness, group);
  if (box('utilisation')) front(box('utilisation'), data.front, 'utilisation', data.front.minUtilisation, group);
}

// A touch elsewhere puts away what a touch brought up.
document.addEventListener('pointerdown', e => {
  for (const c of charts) if (!c.box.contains(e.target)) c.select(-1);
});
dark.addEventListener('change', recolour);

// Paper has its own colours and width, of which a script is told too late.
const PAPER = 660;
addEventListener('beforeprint', () => {
  root.dataset.print = '';
  recolour();
  for (const c of charts) c.fit(Math.min(c.box.clientWidth, PAPER));
});
addEventListener('afterprint', () => {
  delete root.dataset.print;
  recolour();
  fit();
});

// Nothing else changes a chart's width: the style sheet keeps room for a scroll bar.
function fit() {
  if ('print' in root.dataset) return;
  for (const c of charts) c.fit();
  root.dataset.overflow = Math.max(0, root.scrollWidth - root.clientWidth);
}
addEventListener('resize', fit);
fit();
})();
