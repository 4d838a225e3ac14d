// SPDX-License-Identifier: MIT
// Compare: two heads, layers, kinds of attention or, in a served page, texts side by side.

const compare = {
  id: 'compare',
  name: 'Compare',

  async render(host, trace, alive) {
    const second = await this.second();
    if (!alive()) return;
    this.panes = [
      {trace, kind: state.kind, layer: state.layer, head: state.head, suffix: ''},
      {...second, suffix: '2'},
    ];
    for (const pane of this.panes) {
      pane.group = pane.trace.groups.get(pane.kind);
      pane.matrix = await pane.group.matrix(pane.layer, pane.head, state.words);
      if (!alive()) return;
    }
    host.append(el('div', {class: 'compare'}, ...this.panes.map(pane => this.pane(pane))),
      el('section', {class: 'card'}, el('p', {class: 'difference'}, this.difference()), heatmap.legend()));
    for (const pane of this.panes)
      pane.shown = new HeatmapStage(pane.stage, pane.canvas, pane.readout, null, pane.matrix, {still: true});
  },

  // What is on the right: unless chosen, the next head.
  async second() {
    const trace = state.text2 ? await servedTrace(state.text2, state.off) : current.trace;
    const kind = trace.groups.has(state.kind2) ? state.kind2 : trace.groups.has(state.kind) ? state.kind : trace.main;
    const group = trace.groups.get(kind), same = state.text2 !== '';
    const chosen = state.kind2 !== '';
    const layer = Math.min(chosen ? state.layer2 : state.layer, group.layers - 1);
    const head = chosen ? state.head2 : same ? state.head : state.head + 1 < group.heads ? state.head + 1 : -1;
    return {trace, kind, layer: Math.max(0, layer), head: Math.min(Math.max(-1, head), group.heads - 1)};
  },

  pane(pane) {
    const {group, layer, head, suffix} = pane, id = name => `${name}${suffix || 1}`;
    const set = changes => {
      const [, right] = this.panes;
      const kept = {kind2: right.kind, layer2: right.layer, head2: right.head};
      go({...kept, ...Object.fromEntries(Object.entries(changes).map(([k, v]) => [k + suffix, v]))});
    };
    const parts = [];
    if (pane.trace.served) {
      const own = pane.trace.served.text, texts = [...new Set([own, ...servedTexts(), ...(served.model.examples || [])])];
      parts.push(choose(id('sentence'), servesPictures() ? 'Picture' : 'Text', texts.map(t => [t, shorten(t, 60)]), own, text => set({text})));
    }
    if (pane.trace.groups.size > 1)
      parts.push(choose(id('kind'), 'Attention', [...pane.trace.groups.values()].map(g => [g.kind, g.shortName]), pane.kind, kind => set({kind})));
    parts.push(
      choose(id('layer'), capitalise(group.axis), countedOptions(group.layers), layer, v => set({layer: Number(v)})),
      choose(id('head'), 'Head', [[-1, 'mean'], ...countedOptions(group.heads)], head, v => set({head: Number(v)})));
    pane.canvas = el('canvas', {role: 'img', 'aria-label': headTitle(group, layer, head)});
    pane.stage = el('div', {class: 'stage'}, pane.canvas);
    pane.readout = el('p', {class: 'readout'}, bestSentence(group, pane.matrix));
    return el('section', {class: 'card'}, el('h2', {}, headTitle(group, layer, head)),
      el('div', {class: 'panecontrols'}, ...parts),
      pane.trace.output ? el('p', {lang: ''}, el('span', {class: 'muted'}, '→ '), pane.trace.output) : null,
      offNote(group, layer, head), pane.stage, pane.readout);
  },

  // How much attention the two give to different keys, if they have the same ones.
  difference() {
    const [a, b] = this.panes.map(pane => pane.matrix);
    const same = a.rows === b.rows && a.cols === b.cols && a.colLabels.every((t, j) => t === b.colLabels[j]) &&
      a.rowLabels.every((t, i) => t === b.rowLabels[i]);
    if (!same) return 'The words differ, so the two cannot be subtracted.';
    let total = 0, most = -1, where = 0;
    for (let i = 0; i < a.rows; i++) {
      let moved = 0;
      for (let j = i * a.cols; j < (i + 1) * a.cols; j++) moved += Math.abs(a.data[j] - b.data[j]) / 2;
      total += moved / a.rows;
      if (moved > most) [most, where] = [moved, i];
    }
    const {patches, keys} = this.panes[0].group, things = patches ? 'patches' : keys.timed ? 'moments' : 'words';
    return `The two put ${percentText(total)} of their attention on different ${things}` +
      (total > 0 ? `, most for ${patches ? patchName(a.rowLabels[where]) : `“${a.rowLabels[where]}”`} (${percentText(most)}).` : '.');
  },

  async svg() {
    const drawn = this.panes.map(pane => heatmapSvg(pane.matrix, state.shade, headTitle(pane.group, pane.layer, pane.head)));
    const sizes = drawn.map(svg => svg.match(/width="([\d.]+)" height="([\d.]+)"/).slice(1).map(Number));
    const [[left, high], [right, low]] = sizes;
    const putAt = (svg, x) => svg.replace('<svg ', `<svg x="${x}" y="0" `);
    return svgPage(left + right, Math.max(high, low), putAt(drawn[0], 0) + putAt(drawn[1], left));
  },
  async csv() {
    return csvOf([['side', 'head', 'query', 'query token', 'key', 'key token', 'weight'],
      ...this.panes.flatMap(({group, layer, head, matrix: m}, side) =>
        m.rowLabels.flatMap((label, i) => m.colLabels.map((key, j) =>
          [side, headTitle(group, layer, head), i, label, j, key, m.data[i * m.cols + j]])))]);
  },
};
