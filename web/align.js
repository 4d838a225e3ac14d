// SPDX-License-Identifier: MIT
// Alignment: words of source and translation aligned by cross-attention. Hover or
// focus a word on either side to see its counterparts.

const align = {
  id: 'align',
  name: 'Alignment',

  async render(host, trace, alive) {
    const group = current.group;
    const m = await group.matrix(state.layer, state.head, state.words);
    if (!alive()) return;
    this.matrix = m;
    const cross = trace.groups.has('cross');
    if (state.kind !== 'cross')
      host.append(
        el(
          'p',
          {class: 'note'},
          cross
            ? 'This is not cross-attention. '
            : 'This trace has no cross-attention: keys above, queries below. ',
          cross ? el('button', {onclick: () => go({kind: 'cross'})}, 'Show cross-attention') : null
        )
      );
    const word = (text, i, query) => {
      const say = () => this.point(i, query);
      return el(
        'button',
        {class: 'word', onpointerenter: say, onfocus: say, onclick: say},
        el('span', {class: 'label'}, text),
        el('small', {}, '\u00a0')
      );
    };
    this.keyRow = el(
      'div',
      {class: 'sentence keys', lang: ''},
      ...m.colLabels.map((t, j) => word(t, j, false))
    );
    this.queryRow = el(
      'div',
      {class: 'sentence queries', lang: ''},
      ...m.rowLabels.map((t, i) => word(t, i, true))
    );
    for (const row of [this.keyRow, this.queryRow])
      row.addEventListener('pointerleave', () => this.point(state.token, true));
    const names = state.kind === 'cross' ? ['Source', 'Translation'] : ['Keys', 'Queries'];
    host.append(
      el(
        'section',
        {class: 'card'},
        el('h2', {}, names[0]),
        this.keyRow,
        el('h2', {}, names[1]),
        this.queryRow,
        el(
          'p',
          {class: 'muted'},
          'Point at a word: below, to see what it attends to; above, to see what attends to it.'
        )
      ),
      el('section', {class: 'card'}, el('h2', {}, 'Word by word'), this.table(m))
    );
    if (state.token >= 0) this.point(state.token, true);
  },

  point(i, query) {
    const {rows, cols, data} = this.matrix;
    const paint = (row, weights, most) =>
      [...row.children].forEach((b, n) => {
        const w = weights ? weights(n) : 0,
          at = most > 0 ? Math.sqrt(w / most) : 0;
        b.style.backgroundColor = weights && at > 0.05 ? scaleColour(at * 0.85) : '';
        b.style.color = weights && at > 0.05 ? inkOn(at * 0.85) : '';
        b.lastChild.textContent = weights && w >= 0.01 ? percentText(w) : '\u00a0';
        b.dataset.weight = weights ? String(w) : '';
      });
    [...this.keyRow.children, ...this.queryRow.children].forEach(b =>
      b.classList.remove('pointed')
    );
    if (i < 0) {
      paint(this.keyRow);
      paint(this.queryRow);
      return;
    }
    if (query) {
      const weights = j => data[i * cols + j];
      paint(this.keyRow, weights, Math.max(...Array.from({length: cols}, (_, j) => weights(j))));
      paint(this.queryRow);
      this.queryRow.children[i].classList.add('pointed');
    } else {
      const weights = q => data[q * cols + i];
      paint(this.queryRow, weights, Math.max(...Array.from({length: rows}, (_, q) => weights(q))));
      paint(this.keyRow);
      this.keyRow.children[i].classList.add('pointed');
    }
  },

  // The strongest keys of every query.
  best(m, i, count) {
    return Array.from({length: m.cols}, (_, j) => [m.data[i * m.cols + j], j])
      .sort((a, b) => b[0] - a[0])
      .slice(0, count);
  },
  table(m) {
    const most = 400,
      body = el('tbody');
    m.rowLabels
      .slice(0, most)
      .forEach((label, i) =>
        body.append(
          el(
            'tr',
            {},
            el('th', {scope: 'row'}, label),
            ...this.best(m, i, 3).map(([w, j]) =>
              el('td', {}, m.colLabels[j], ' ', el('span', {class: 'muted'}, percentText(w)))
            )
          )
        )
      );
    return el('div', {class: 'scroll'}, el('table', {class: 'pairs'}, body));
  },

  svg: async () => heatmapSvg(await currentMatrix(), state.shade, currentTitle()),
  async csv() {
    const m = await currentMatrix();
    return csvOf([
      ['query', 'query token', 'key', 'key token', 'weight'],
      ...m.rowLabels.flatMap((label, i) =>
        this.best(m, i, 3).map(([w, j]) => [i, label, j, m.colLabels[j], w])
      ),
    ]);
  },
};
