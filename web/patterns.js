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
  silence: 'rests on what comes after the sound, as heads do that find nothing to attend to',
  'first token': 'rests on the first token, as heads do that find nothing to attend to',
  'end token': 'rests on the last token, as heads do that find nothing to attend to',
  'same token': 'attends to other occurrences of the same token',
  punctuation: 'attends to punctuation, which can stand for a clause',
  local: 'attends to the neighbourhood of each token',
  monotone: 'follows the order of the source, roughly at the same speed',
  broad: 'spreads over all tokens, nearly an average',
  'long-range': 'attends to distant tokens',
  focused: 'picks a few tokens, by no simple rule of position',
  mixed: 'several of these, none of them clearly',
};

// For each query the source token that the mean of all heads of all layers weighs most, special
// tokens aside; `words`: the range of its word. Null for self-attention.
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

// The ranges of the word before `own`, of its own, and of the one after it.
function wordsAround(keys, own, aligned) {
  if (keys.timed) return [null, {first: own - NEAR_MOMENT, end: own + NEAR_MOMENT + 1}, null];
  if (!aligned) return [-1, 0, 1].map(d => ({first: own + d, end: own + d + 1}));
  return [-1, 0, 1].map(d => keys.words[keys.wordOf[own] + d]);
}

// Averages over the queries that see any key. `aligned`: alignmentOf(group).
function headStatistics(group, {rows, cols, data}, aligned = null) {
  const s = Object.fromEntries(SUMS.map(name => [name, 0]));
  const stretch = group.square || rows < 2 ? 1 : (cols - 1) / (rows - 1);
  const [q, k] = tokenIds(group.queries.bare, group.keys.bare);
  const mark = group.keys.named ? group.keys.bare.map(isPunctuation) : group.keys.bare.map(() => false);
  let live = 0, counted = 0;
  for (let i = 0; i < rows; i++) {
    const position = i * stretch, own = aligned ? aligned[i] : Math.round(position);
    // a word has as many tokens as it has; positions without words are words of one token
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
    live++;
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
  for (const key of SUMS) s[key] /= Math.max(1, key === 'evenness' ? counted : live);
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
