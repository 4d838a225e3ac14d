// SPDX-License-Identifier: MIT
// Heads: the statistics of each head of a group, and the name of its pattern (patterns.js).

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
  {id: 'distance', name: 'Distance', unit: 'tokens', patchUnit: 'patches', tip: 'mean distance from query to key',
   crossTip: 'mean distance from the aligned token to the key'},
  {id: 'diagonal', name: 'Itself', cross: 'Aligned', share: true, tip: 'share on the query itself',
   crossTip: 'share on the aligned word'},
  {id: 'previous', name: 'Previous', cross: 'Before', share: true, ofWords: true, tip: 'share on the token before',
   crossTip: 'share on the word before the aligned one'},
  {id: 'next', name: 'Next', cross: 'After', share: true, ofWords: true, tip: 'share on the token after',
   crossTip: 'share on the word after the aligned one'},
  {id: 'neighbours', name: 'Neighbours', share: true, ofPatches: true, tip: 'share on the up to 8 patches around the query’s'},
  {id: 'row', name: 'Row', share: true, ofPatches: true, tip: 'share on other patches of the query’s row'},
  {id: 'column', name: 'Column', share: true, ofPatches: true, tip: 'share on other patches of the query’s column'},
  {id: 'special', name: 'Class token', share: true, ofPatches: true, tip: 'share on tokens that are no patches'},
  {id: 'first', name: 'First', share: true, ofTokens: true, tip: 'share on the first token'},
  {id: 'end', name: 'End', share: true, ofTokens: true, tip: 'share on the last token'},
  {id: 'punctuation', name: 'Punctuation', share: true, ofWords: true, tip: 'share on tokens without letters or digits'},
  {id: 'same', name: 'Same token', share: true, ofWords: true, tip: 'share on equal tokens at other positions'},
];

// Moments of sound and patches are no words.
const columnsOf = group =>
  COLUMNS.filter(c => (group.patches ? !c.ofWords && !c.ofTokens : !c.ofPatches && (!c.ofWords || !group.keys.timed)));

const headsView = {
  id: 'heads',
  name: 'Heads',
  sort: {column: 'layer', down: false},
  only: '', // the pattern that is shown alone

  async rows(group, alive = () => true) {
    const all = [];
    for (let layer = 0; layer < group.layers; layer++)
      for (let head = 0; head < group.heads; head++) {
        all.push({layer, head, ...(await statisticsOf(group, layer, head))});
        if (!alive()) return all;
      }
    return all;
  },

  async render(host, trace, alive) {
    const wait = el('p', {class: 'muted'}, 'Computing …');
    host.append(wait);
    const group = current.group, all = await this.rows(group, alive);
    if (!alive()) return;
    wait.remove();
    const body = el('tbody'), heading = el('tr'), names = el('dl', {class: 'patterns'});
    const fill = () => {
      const {column, down} = this.sort, sign = down ? -1 : 1;
      const compare = (a, b) =>
        typeof a[column] === 'string' ? a[column].localeCompare(b[column]) : a[column] - b[column];
      const shown = all.filter(r => !this.only || r.pattern === this.only);
      shown.sort((a, b) => sign * compare(a, b) || a.layer - b.layer || a.head - b.head);
      names.replaceChildren(...this.patternNames(group, all, fill));
      body.replaceChildren(...shown.map(r => this.row(r)));
      heading.replaceChildren(...columnsOf(group).map(c => this.heading(c, fill)));
    };
    if (!all.some(r => r.pattern === this.only)) this.only = '';
    fill();
    host.append(el('section', {class: 'card'},
      el('h2', {}, `${group.name}: what each head does here`),
      group.kind === 'cross'
        ? el('p', {class: 'muted'}, group.keys.timed
            ? 'Aligned is the moment that all heads together weigh most when a word is written, with three ' +
              'columns on either side.'
            : 'Positions are relative to the aligned word: the source word that ' +
              'all heads together weigh most when a word is written.')
        : group.patches
          ? el('p', {class: 'muted'}, 'Shares are averages over the patches as queries, by their places in the picture.')
          : null,
      names,
      el('div', {class: 'scroll'}, el('table', {class: 'stats'}, el('thead', {}, heading), body)),
      el('p', {class: 'muted'}, `Averages over the ${group.patches ? 'patches of this picture' : 'words of this text'} alone; ` +
        '“multihead heads” averages over many. Click a row to see the head.')));
  },
  // The names that occur, how often, and what they mean; a click shows these heads only.
  patternNames(group, all, fill) {
    const counts = new Map();
    for (const r of all) counts.set(r.pattern, (counts.get(r.pattern) || 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1]).map(([name, n]) =>
      el('div', {},
        el('dt', {}, el('button', {class: 'pattern', 'aria-pressed': String(this.only === name), onclick: () => {
          this.only = this.only === name ? '' : name;
          fill();
        }}, `${name} ${n}`)),
        el('dd', {}, patternMeaning(group, name))));
  },
  columnName: c =>
    c.id === 'layer' ? capitalise(current.group.axis) : (current.group.kind === 'cross' && c.cross) || c.name,
  heading(c, fill) {
    const {column, down} = this.sort, chosen = c.id === column;
    return el('th', {
      scope: 'col',
      'aria-sort': chosen ? (down ? 'descending' : 'ascending') : null,
      title: (current.group.kind === 'cross' && c.crossTip) || c.tip,
    }, el('button', {onclick: () => {
      this.sort = {column: c.id, down: chosen ? !down : !c.text && c.id !== 'layer' && c.id !== 'head'};
      fill();
    }}, this.columnName(c), chosen ? (down ? ' ↓' : ' ↑') : ''));
  },
  row(r) {
    const open = () => go({view: 'heatmap', layer: r.layer, head: r.head});
    return el('tr', {onclick: open}, ...columnsOf(current.group).map(c => {
      if (c.id === 'head')
        return el('td', {class: 'n'}, el('button', {
          class: 'plain', 'aria-label': `Show ${current.group.axis} ${r.layer}, head ${r.head}`,
        }, String(r.head)));
      if (c.text) return el('td', {}, el('span', {class: 'pattern', title: patternMeaning(current.group, r[c.id])}, r[c.id]));
      if (!c.share)
        return el('td', {class: 'n'}, c.id === 'layer' ? String(r.layer) : r[c.id].toFixed(2));
      const cell = el('td', {class: 'n share'}, (100 * r[c.id]).toFixed(0) + ' %');
      cell.style.setProperty('--share', `${Math.min(100, 100 * r[c.id])}%`);
      return cell;
    }));
  },

  async table() {
    const all = await this.rows(current.group), columns = columnsOf(current.group);
    const value = (r, c) =>
      typeof r[c.id] === 'number' && c.id !== 'layer' && c.id !== 'head' ? r[c.id].toFixed(4) : r[c.id];
    return [columns.map(c => this.columnName(c) + (c.unit ? ` (${(current.group.patches && c.patchUnit) || c.unit})` : '')),
            ...all.map(r => columns.map(c => value(r, c)))];
  },
  svg: async () => tableSvg(`${current.group.name}: what each head does`, await headsView.table()),
  csv: async () => csvOf(await headsView.table()),
};
