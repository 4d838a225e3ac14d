// SPDX-License-Identifier: MIT
// What a head does: where its attention goes on average over the queries, and a name for it.

// Shares of attention are of the position relative to the query's own or, in cross-attention, to
// the position that is aligned with the query.
const PATTERNS = {
  'previous token': 'each token attends to the one before it',
  'next token': 'each token attends to the one after it',
  itself: 'each token attends to itself',
  aligned: 'each word attends to the source word that it translates',
  before: 'attends to the source word before the one that is translated',
  after: 'attends to the source word after the one that is translated',
  'follows the sound': 'attends to the moments at which each word is said',
  silence: 'rests on what comes after the sound, as heads often do when nothing is relevant',
  'first token': 'rests on the first token, as heads often do when nothing is relevant',
  'end token': 'rests on the last token, as heads often do when nothing is relevant',
  'same token': 'attends to other occurrences of the same token',
  punctuation: 'attends to punctuation, which can stand for a clause',
  local: 'attends to the neighbourhood of each token',
  monotone: 'follows the order of the source, roughly at the same speed',
  broad: 'spreads over all tokens, nearly an average',
  'long-range': 'attends to distant tokens',
  focused: 'picks a few tokens, by no simple rule of position',
  mixed: 'several of these, none of them clearly',
};

// The same of a picture, whose tokens are patches.
const PATCH_PATTERNS = {
  itself: 'each patch attends to itself',
  neighbours: 'each patch attends to the up to 8 patches around it',
  row: 'each patch attends to other patches of its row',
  column: 'each patch attends to other patches of its column',
  'class token': 'rests on the class token, as heads often do when nothing is relevant',
  broad: 'spreads over all patches, nearly an average',
  'long-range': 'attends to distant patches',
  focused: 'picks a few patches, by no simple rule of position',
  mixed: 'several of these, none of them clearly',
};
const patternMeaning = (group, pattern) => (group.patches ? PATCH_PATTERNS : PATTERNS)[pattern];

// For each query the source token that the mean of all heads of all layers weighs most, special
// tokens aside. Null for self-attention.
async function alignmentOf(group) {
  if (group.kind !== 'cross') return null;
  return group.trace.keep('alignment', 2 * group.rows, async () => {
    const {rows, cols} = group, total = new Float64Array(rows * cols);
    for (let layer = 0; layer < group.layers; layer++) {
      const {data} = await group.head(layer, -1);
      for (let i = 0; i < data.length; i++) total[i] += data[i];
    }
    const {special} = group.keys, usable = special.some(s => !s);
    return Int32Array.from({length: rows}, (_, i) => {
      let best = -1;
      for (let j = 0; j < cols; j++)
        if ((!usable || !special[j]) && (best < 0 || total[i * cols + j] > total[i * cols + best]))
          best = j;
      return best;
    });
  });
}

// A number for each different token.
function tokenIds(...lists) {
  const ids = new Map();
  return lists.map(list => list.map(token => {
    if (!ids.has(token)) ids.set(token, ids.size);
    return ids.get(token);
  }));
}

// A word is said within so many columns of the one that the heads weigh most.
const NEAR_MOMENT = 3;

const SUMS = ['entropy', 'distance', 'diagonal', 'previous', 'next', 'first', 'end', 'same',
              'punctuation', 'near', 'evenness'];

// The ranges of the word before that of token `own`, of its own, and of the one after it; without an
// alignment, of single tokens.
function wordsAround(keys, own, aligned) {
  if (keys.timed) return [null, {first: own - NEAR_MOMENT, end: own + NEAR_MOMENT + 1}, null];
  if (!aligned) return [-1, 0, 1].map(d => ({first: own + d, end: own + d + 1}));
  return [-1, 0, 1].map(d => keys.words[keys.wordOf[own] + d]);
}

const entropyOf = row => row.reduce((sum, w) => (w > 0 ? sum - w * Math.log2(w) : sum), 0);

// Of a picture: averages over its patches as queries, by their places in it. Shares of `special` are of
// the tokens before the patches; distances are between centres, in patches.
const PATCH_SUMS = ['entropy', 'distance', 'diagonal', 'neighbours', 'row', 'column', 'special', 'evenness'];
function patchStatistics(group, {cols, data}) {
  const {columns, first, count} = group.patches, s = Object.fromEntries(PATCH_SUMS.map(name => [name, 0]));
  for (let i = first; i < first + count; i++) {
    const row = data.subarray(i * cols, (i + 1) * cols), entropy = entropyOf(row);
    s.entropy += entropy / count;
    s.evenness += entropy / Math.log2(cols) / count;
    for (let j = 0; j < cols; j++) {
      const w = row[j] / count;
      if (j < first) {
        s.special += w;
        continue;
      }
      const down = Math.abs(Math.floor((j - first) / columns) - Math.floor((i - first) / columns));
      const across = Math.abs(((j - first) % columns) - ((i - first) % columns));
      s.distance += w * Math.hypot(down, across);
      if (i === j) s.diagonal += w;
      else {
        if (Math.max(down, across) === 1) s.neighbours += w;
        if (down === 0) s.row += w;
        if (across === 0) s.column += w;
      }
    }
  }
  s.first = s.special;
  s.pattern = patchPattern(group.patches, s);
  return s;
}
function patchPattern({rows, columns}, s) {
  const small = Math.min(rows, columns) < 4; // all patches are near each other
  if (s.diagonal >= 0.4) return 'itself';
  if (s.special >= 0.4) return 'class token';
  if (!small && s.neighbours >= 0.4) return 'neighbours';
  if (!small && s.row >= 0.4) return 'row';
  if (!small && s.column >= 0.4) return 'column';
  if (s.evenness >= 0.85) return 'broad';
  if (!small && s.distance >= 0.5 * Math.hypot(rows, columns)) return 'long-range';
  return s.evenness < 0.55 ? 'focused' : 'mixed';
}

// Averages over the queries that see any key. `aligned`: alignmentOf(group).
function headStatistics(group, {rows, cols, data}, aligned = null) {
  if (group.patches) return patchStatistics(group, {cols, data});
  const s = Object.fromEntries(SUMS.map(name => [name, 0]));
  const stretch = group.square || rows < 2 ? 1 : (cols - 1) / (rows - 1);
  const [q, k] = tokenIds(group.queries.bare, group.keys.bare);
  const mark = group.keys.named ? group.keys.bare.map(isPunctuation) : group.keys.bare.map(() => false);
  let attending = 0, counted = 0;
  for (let i = 0; i < rows; i++) {
    const position = i * stretch, own = aligned ? aligned[i] : Math.round(position);
    const [before, word, after] = wordsAround(group.keys, own, aligned !== null);
    let entropy = 0, sum = 0, seen = 0;
    for (let j = 0, at = i * cols; j < cols; j++, at++) {
      const w = data[at];
      if (w <= 0) continue;
      seen++;
      sum += w;
      entropy -= w * Math.log2(w);
      const d = Math.abs(j - (aligned ? own : position));
      s.distance += w * d;
      if (Math.abs(j - position) <= 2.5) s.near += w;
      if (k[j] === q[i] && j !== own) s.same += w;
      if (mark[j]) s.punctuation += w;
    }
    if (sum === 0) continue;
    attending++;
    s.entropy += entropy;
    if (seen > 1) {
      s.evenness += entropy / Math.log2(seen);
      counted++;
    }
    const share = range => {
      let total = 0;
      if (range)
        for (let j = Math.max(0, range.first); j < Math.min(cols, range.end); j++) total += data[i * cols + j];
      return total;
    };
    s.diagonal += share(word);
    s.previous += share(before);
    s.next += share(after);
    s.first += data[i * cols];
    s.end += data[i * cols + cols - 1];
  }
  for (const key of SUMS) s[key] /= Math.max(1, key === 'evenness' ? counted : attending);
  s.pattern = headPattern(group, s);
  return s;
}

function soundPattern(s) {
  if (s.end >= 0.4) return 'silence';
  if (s.diagonal >= 0.4) return 'follows the sound';
  if (s.evenness >= 0.85) return 'broad';
  return s.evenness < 0.55 ? 'focused' : 'mixed';
}

function headPattern(group, s) {
  if (group.keys.timed) return soundPattern(s);
  const small = group.cols < 6; // all positions are near each other
  const cross = group.kind === 'cross';
  if (s.previous >= 0.4 && (group.square || cross)) return cross ? 'before' : 'previous token';
  if (s.next >= 0.4 && (group.square || cross)) return cross ? 'after' : 'next token';
  if (s.diagonal >= 0.4 && (group.square || cross)) return cross ? 'aligned' : 'itself';
  if (s.first >= 0.4) return 'first token';
  if (s.end >= 0.4) return 'end token';
  if (s.same >= 0.35) return 'same token';
  if (s.punctuation >= 0.4) return 'punctuation';
  if (!small && s.near >= 0.6) return group.square ? 'local' : 'monotone';
  if (s.evenness >= 0.85) return 'broad';
  if (!small && s.distance >= 0.4 * group.cols) return 'long-range';
  return s.evenness < 0.55 ? 'focused' : 'mixed';
}

const statisticsOf = (group, layer, head) =>
  group.trace.keep(`${group.kind} ${layer} ${head} statistics`, 1, async () =>
    headStatistics(group, await group.head(layer, head), await alignmentOf(group)));

// The head of a layer that says most at a glance: the lowest entropy, of those that give less than
// half of their attention to special tokens and to the first one; of all if there are none.
async function clearestHead(group, layer) {
  let best = null;
  for (let head = 0; head < group.heads; head++) {
    const {entropy, first} = await statisticsOf(group, layer, head);
    const {data} = await group.head(layer, head);
    let resting = group.kind === 'cross' || group.keys.special[0] ? 0 : first;
    group.keys.special.forEach((special, j) => {
      if (special) for (let i = 0; i < group.rows; i++) resting += data[i * group.cols + j] / group.rows;
    });
    const rank = [resting < 0.5 ? 0 : 1, entropy];
    if (!best || rank[0] < best.rank[0] || (rank[0] === best.rank[0] && rank[1] < best.rank[1]))
      best = {head, rank};
  }
  return best.head;
}
