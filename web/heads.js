// SPDX-License-Identifier: MIT
// What each head does: where its attention goes on average over the queries, and a name for it.

const COLUMNS = [
  {id: 'layer', name: 'Layer'},
  {id: 'head', name: 'Head'},
  {id: 'pattern', name: 'Pattern', text: true},
  {
    id: 'entropy',
    name: 'Entropy',
    unit: 'bits',
    tip: 'how spread out: 0 is a single key, log₂ of the number of keys is uniform',
  },
  {id: 'distance', name: 'Distance', unit: 'tokens', tip: 'mean distance from query to key'},
  {id: 'diagonal', name: 'Itself', share: true, tip: 'share on the query’s own position'},
  {id: 'previous', name: 'Previous', share: true},
  {id: 'next', name: 'Next', share: true},
  {id: 'first', name: 'First', share: true, tip: 'share on the first token'},
  {id: 'end', name: 'End', share: true, tip: 'share on the last token'},
  {id: 'same', name: 'Same token', share: true, tip: 'share on equal tokens at other positions'},
];

// Averages over the queries that see any key. In cross-attention a query's own position is the
// proportional one in the other sentence.
function headStatistics(group, {rows, cols, data}) {
  const s = {
    entropy: 0,
    distance: 0,
    diagonal: 0,
    previous: 0,
    next: 0,
    first: 0,
    end: 0,
    same: 0,
    near: 0,
    evenness: 0,
  };
  const stretch = group.square || rows < 2 ? 1 : (cols - 1) / (rows - 1);
  const queryTokens = group.queries.tokens.map(bareToken),
    keyTokens = group.keys.tokens.map(bareToken);
  const ids = new Map(),
    id = t => {
      if (!ids.has(t)) ids.set(t, ids.size);
      return ids.get(t);
    };
  const q = queryTokens.map(id),
    k = keyTokens.map(id);
  let live = 0,
    counted = 0;
  for (let i = 0; i < rows; i++) {
    const place = i * stretch,
      own = Math.round(place);
    let entropy = 0,
      sum = 0,
      seen = 0;
    for (let j = 0, at = i * cols; j < cols; j++, at++) {
      const w = data[at];
      if (w <= 0) continue;
      seen++;
      sum += w;
      entropy -= w * Math.log2(w);
      const d = Math.abs(j - place);
      s.distance += w * d;
      if (d <= 2.5) s.near += w;
      if (k[j] === q[i] && j !== own) s.same += w;
    }
    if (sum === 0) continue;
    live++;
    s.entropy += entropy;
    if (seen > 1) {
      s.evenness += entropy / Math.log2(seen);
      counted++;
    }
    const weight = j => (j >= 0 && j < cols ? data[i * cols + j] : 0);
    s.diagonal += weight(own);
    s.previous += weight(own - 1);
    s.next += weight(own + 1);
    s.first += weight(0);
    s.end += weight(cols - 1);
  }
  for (const key of Object.keys(s)) s[key] /= Math.max(1, key === 'evenness' ? counted : live);
  s.pattern = headPattern(group, s);
  return s;
}

function headPattern(group, s) {
  const small = group.cols < 6; // all positions are near each other
  if (group.square && s.previous >= 0.4) return 'previous token';
  if (group.square && s.next >= 0.4) return 'next token';
  if (group.square && s.diagonal >= 0.4) return 'itself';
  if (s.first >= 0.4) return 'first token';
  if (s.end >= 0.4) return 'end token';
  if (s.same >= 0.35) return 'same token';
  if (!small && s.near >= 0.6) return group.square ? 'local' : 'monotone';
  if (s.evenness >= 0.85) return 'broad';
  if (!small && s.distance >= 0.4 * group.cols) return 'long-range';
  return s.evenness < 0.55 ? 'focused' : 'mixed';
}

const headsView = {
  id: 'heads',
  name: 'Heads',
  sort: {column: 'layer', down: false},

  async rows(group, alive = () => true) {
    const all = [];
    for (let layer = 0; layer < group.layers; layer++)
      for (let head = 0; head < group.heads; head++) {
        const key = `${group.kind} ${layer} ${head} statistics`;
        all.push({
          layer,
          head,
          ...(await group.trace.keep(key, 1, async () =>
            headStatistics(group, await group.head(layer, head))
          )),
        });
        if (!alive()) return all;
      }
    return all;
  },

  async render(host, trace, alive) {
    const wait = el('p', {class: 'muted'}, 'Computing …');
    host.append(wait);
    const all = await this.rows(current.group, alive);
    if (!alive()) return;
    wait.remove();
    const counts = new Map();
    for (const r of all) counts.set(r.pattern, (counts.get(r.pattern) || 0) + 1);
    const body = el('tbody'),
      heading = el('tr');
    const fill = () => {
      const {column, down} = this.sort,
        sign = down ? -1 : 1;
      const compare = (a, b) =>
        typeof a[column] === 'string' ? a[column].localeCompare(b[column]) : a[column] - b[column];
      const sorted = [...all].sort(
        (a, b) => sign * compare(a, b) || a.layer - b.layer || a.head - b.head
      );
      body.replaceChildren(...sorted.map(r => this.row(r)));
      heading.replaceChildren(
        ...COLUMNS.map(c =>
          el(
            'th',
            {
              scope: 'col',
              'aria-sort': c.id === column ? (down ? 'descending' : 'ascending') : null,
              title: c.tip,
            },
            el(
              'button',
              {
                onclick: () => {
                  this.sort = {
                    column: c.id,
                    down: c.id === column ? !down : !c.text && c.id !== 'layer' && c.id !== 'head',
                  };
                  fill();
                },
              },
              this.columnName(c),
              c.id === column ? (down ? ' ↓' : ' ↑') : ''
            )
          )
        )
      );
    };
    fill();
    host.append(
      el(
        'section',
        {class: 'card'},
        el('h2', {}, `${current.group.name}: what each head does`),
        el(
          'p',
          {class: 'patterns'},
          ...[...counts]
            .sort((a, b) => b[1] - a[1])
            .map(([name, n]) => el('span', {class: 'pattern'}, `${name} ${n}`))
        ),
        el('div', {class: 'scroll'}, el('table', {class: 'stats'}, el('thead', {}, heading), body))
      )
    );
  },
  columnName: c => (c.id === 'layer' ? capitalise(current.group.axis) : c.name),
  row(r) {
    const open = () => go({view: 'heatmap', layer: r.layer, head: r.head});
    return el(
      'tr',
      {onclick: open},
      ...COLUMNS.map(c => {
        if (c.id === 'head')
          return el(
            'td',
            {class: 'n'},
            el(
              'button',
              {class: 'plain', 'aria-label': `Show ${current.group.axis} ${r.layer}, head ${r.head}`},
              String(r.head)
            )
          );
        if (c.text) return el('td', {}, el('span', {class: 'pattern'}, r[c.id]));
        if (!c.share)
          return el('td', {class: 'n'}, c.id === 'layer' ? String(r.layer) : r[c.id].toFixed(2));
        const cell = el('td', {class: 'n share'}, (100 * r[c.id]).toFixed(0) + ' %');
        cell.style.setProperty('--share', `${Math.min(100, 100 * r[c.id])}%`);
        return cell;
      })
    );
  },

  async table() {
    const all = await this.rows(current.group);
    return [
      COLUMNS.map(c => this.columnName(c) + (c.unit ? ` (${c.unit})` : '')),
      ...all.map(r =>
        COLUMNS.map(c =>
          typeof r[c.id] === 'number' && c.id !== 'layer' && c.id !== 'head'
            ? r[c.id].toFixed(4)
            : r[c.id]
        )
      ),
    ];
  },
  svg: async () => tableSvg(`${current.group.name}: what each head does`, await headsView.table()),
  csv: async () => csvOf(await headsView.table()),
};
