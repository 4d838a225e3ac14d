// SPDX-License-Identifier: MIT
// The data. A trace is a description and numbered chunks (see src/view/page_data.h); a chunk is
// decoded when it is first needed and kept while there is room.

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text),
    bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// Not via a Blob, which would need a round trip to another browser process for every chunk.
async function inflate(bytes) {
  const {readable, writable} = new DecompressionStream('deflate-raw'),
    writer = writable.getWriter();
  const written = writer.write(bytes).then(() => writer.close());
  const [buffer] = await Promise.all([new Response(readable).arrayBuffer(), written]);
  return buffer;
}

// A head's weights: each the row's maximum times a number of steps.
function weightsOfChunk(buffer, rows, cols, bits) {
  const most = new Float32Array(buffer, 0, rows),
    count = rows * cols;
  const high = new Uint8Array(buffer, 4 * rows, count);
  const low = bits === 16 ? new Uint8Array(buffer, 4 * rows + count, count) : null;
  const data = new Float32Array(count);
  for (let i = 0, at = 0; i < rows; i++) {
    const step = most[i] / (bits === 16 ? 65535 : 255);
    for (let j = 0; j < cols; j++, at++)
      data[at] = low ? (high[at] * 256 + low[at]) * step : high[at] * step;
  }
  return data;
}

function floatOfHalf(h) {
  const sign = h & 0x8000 ? -1 : 1,
    exponent = (h >> 10) & 31,
    mantissa = h & 1023;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (1 + mantissa / 1024) * 2 ** (exponent - 15);
}

// ---- words ----------------------------------------------------------------------------------

const isSpecial = token => /^(<[^<>\s]+>|\[[A-Z]+\d*\])$/.test(token);
const isPunctuation = token => /^[\p{P}\p{S}]+$/u.test(token);
const isMoment = token => /^\d+\.\d+s$/.test(token);
const joinsWords = token => /^['’ʼ\-‐‑_]$/u.test(token);

// Which tokens follow a space, by the markers of common tokenizers.
function guessStarts(tokens) {
  const some = test => tokens.some(test);
  if (some(t => t.startsWith('▁')) || some(t => t.startsWith('Ġ')))
    return tokens.map(
      (t, i) => i === 0 || /^[▁ĠĊ\n]/.test(t) || /[Ċ\n]$/.test(tokens[i - 1]) || isSpecial(t) || isSpecial(tokens[i - 1])
    );
  if (some(t => t.startsWith('##'))) return tokens.map(t => !t.startsWith('##'));
  if (some(t => t.endsWith('@@')))
    return tokens.map((t, i) => i === 0 || !tokens[i - 1].endsWith('@@'));
  if (some(t => t.endsWith('</w>')))
    return tokens.map(
      (t, i) => i === 0 || tokens[i - 1].endsWith('</w>') || isSpecial(tokens[i - 1])
    );
  return tokens.map(() => true);
}
// Byte-level tokenizers write a letter for each byte: Ġ for a space, Ċ for a newline, Ã© for é.
const BYTE_OF = new Map();
for (let byte = 0, other = 256; byte < 256; byte++) {
  const itself = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  BYTE_OF.set(String.fromCharCode(itself ? byte : other++), byte);
}
// The text of such letters; as they are if they are not whole characters.
function textOfLetters(letters) {
  const bytes = Array.from(letters, letter => BYTE_OF.get(letter));
  if (bytes.includes(undefined)) return letters;
  try {
    return new TextDecoder('utf-8', {fatal: true}).decode(Uint8Array.from(bytes));
  } catch {
    return letters;
  }
}
const bareToken = t => t.replace(/^(▁|Ġ|##)/, '').replace(/(@@|<\/w>)$/, '');

// Punctuation is a word of its own, except for what stands between letters: l'eau, well-known.
function wordStarts(bare, spaced) {
  const inside = i =>
    joinsWords(bare[i]) && i > 0 && i + 1 < bare.length && !spaced[i] && !spaced[i + 1] &&
    !isPunctuation(bare[i - 1]) && !isPunctuation(bare[i + 1]);
  const apart = bare.map((t, i) => isPunctuation(t) && !inside(i));
  return bare.map((_, i) => i === 0 || spaced[i] || apart[i] !== apart[i - 1]);
}

class Tokens {
  constructor(count, side) {
    const given = side && side.tokens.length ? side.tokens : null;
    this.named = given !== null;
    this.tokens = given || Array.from({length: count}, (_, i) => String(i));
    this.timed = count > 2 && this.tokens.slice(0, -1).every(isMoment); // the last one may be silence
    this.special = this.tokens.map(t => this.named && (isSpecial(t) || (this.timed && !isMoment(t))));
    const letters = given && !side.words && given.some(t => t.startsWith('Ġ')) ? textOfLetters : t => t;
    const bare = this.tokens.map((t, i) => (this.special[i] ? t : bareToken(t)));
    this.bare = bare.map(letters);
    this.spaced =
      (given && side.words) || (given ? guessStarts(given) : this.tokens.map(() => true));
    const starts = wordStarts(this.bare, this.spaced);
    this.words = [];
    this.wordOf = this.bare.map((text, i) => {
      if (starts[i]) this.words.push({first: i, end: i + 1, text});
      else {
        const word = this.words[this.words.length - 1];
        word.end = i + 1;
        word.text = letters(bare.slice(word.first, i + 1).join(''));
      }
      return this.words.length - 1;
    });
  }
  get mergeable() {
    return this.words.length < this.tokens.length || this.tokens.some((t, i) => t !== this.bare[i]);
  }
  labels(words) {
    return words ? this.words.map(w => tokenText(w.text)) : this.tokens.map(tokenText);
  }
  // All but special tokens as a line of text.
  sentence() {
    let text = '';
    this.bare.forEach((token, i) => {
      if (!this.special[i]) text += (text && this.spaced[i] ? ' ' : '') + token;
    });
    return this.named ? text : '';
  }
}

// Subwords to words: attention to a word is the sum over its tokens, attention from it the mean.
function mergeWords(matrix, queries, keys) {
  const rows = queries.words.length,
    cols = keys.words.length,
    data = new Float32Array(rows * cols);
  queries.words.forEach((q, r) => {
    for (let i = q.first; i < q.end; i++)
      keys.words.forEach((k, c) => {
        let sum = 0;
        for (let j = k.first; j < k.end; j++) sum += matrix.data[i * matrix.cols + j];
        data[r * cols + c] += sum / (q.end - q.first);
      });
  });
  return {rows, cols, data};
}

// The row or column of a token, and the token of a row or column; -1 is none.
const positionOf = (tokens, token, words) => (token < 0 || !words ? token : tokens.wordOf[token]);
const tokenAt = (tokens, position, words) => (position < 0 || !words ? position : tokens.words[position].first);

// ---- a group: all layers of one kind ----------------------------------------------------------

const KIND_NAMES = {
  'encoder.self': 'Encoder self-attention',
  'decoder.self': 'Decoder self-attention',
  cross: 'Cross-attention',
  attention: 'Attention',
};
const KIND_MEANINGS = {
  'encoder.self': 'Words of the text attend to each other.',
  'decoder.self': 'Each word attends to itself and the words before it.',
  cross: 'Each word that is written attends to the words of the source.',
  attention: 'Each row (query) spreads its attention over the columns (keys).',
};
const patchesOf = ({rows, columns}, tokens) => ({rows, columns, count: rows * columns, first: tokens - rows * columns});
// "6,2", the label of a patch, for a sentence.
const patchName = label => label.replace(/^(\d+),(\d+)$/, 'patch row $1, column $2');

const KIND_ORDER = ['cross', 'encoder.self', 'decoder.self', 'attention'];
const KEPT_WEIGHTS = 48e6;

class Group {
  constructor(trace, description) {
    Object.assign(this, {
      trace,
      kind: description.kind,
      first: description.first,
      taps: description.taps,
      norm: description.norm || '',
      name: KIND_NAMES[description.kind],
    });
    [this.layers, this.heads, this.rows, this.cols] = description.shape;
    this.queries = new Tokens(this.rows, trace.sides[description.queries]);
    this.keys = new Tokens(this.cols, trace.sides[description.keys]);
    this.square = this.rows === this.cols && this.kind !== 'cross';
    const picture = this.kind === 'encoder.self' && trace.description.picture;
    this.patches = picture ? patchesOf(picture, this.rows) : null; // the last tokens, row by row
    this.shortName = this.name.replace('-attention', '');
    this.meaning = trace.description.picture ? 'Patches of the picture attend to each other.'
      : this.keys.timed ? 'Each word that is written attends to moments of the sound.'
      : KIND_MEANINGS[description.kind];
    this.axis = description.sequences ? 'sequence' : 'layer'; // what the first dimension counts
    const width = this.taps.q && this.taps.q.shape[3];
    this.scale = description.scale || (width ? 1 / Math.sqrt(width) : 1);
  }

  // One head's weights, unmodified; head -1: the mean of all.
  async head(layer, head) {
    return this.trace.keep(`${this.kind} ${layer} ${head}`, this.rows * this.cols, async () => {
      const shape = {rows: this.rows, cols: this.cols};
      if (head >= 0) {
        const buffer = await this.trace.chunk(this.first + layer * this.heads + head);
        return {...shape, data: weightsOfChunk(buffer, this.rows, this.cols, this.trace.bits)};
      }
      const data = new Float32Array(this.rows * this.cols);
      for (let h = 0; h < this.heads; h++) {
        const one = (await this.head(layer, h)).data;
        for (let i = 0; i < data.length; i++) data[i] += one[i] / this.heads;
      }
      return {...shape, data};
    });
  }

  // What is shown of it: with labels, and merged if `words`.
  async matrix(layer, head, words) {
    const whole = await this.head(layer, head);
    const merged = words ? mergeWords(whole, this.queries, this.keys) : whole;
    return {...merged, rowLabels: this.queries.labels(words), colLabels: this.keys.labels(words)};
  }

  // A tap of one layer: its values and the shape of that layer. Null if the trace has none.
  async tap(name, layer) {
    const tap = this.taps[name];
    if (!tap) return null;
    const layered = name !== 'mask',
      shape = layered ? tap.shape.slice(1) : tap.shape;
    const count = shape.reduce((a, b) => a * b, 1);
    const data = await this.trace.keep(`${this.kind} ${name} ${layer}`, count, async () => {
      const buffer = await this.trace.chunk(tap.first + (layered ? layer : 0));
      return tap.type === 'f32'
        ? new Float32Array(buffer)
        : Float32Array.from(new Uint16Array(buffer), floatOfHalf);
    });
    return {data, shape};
  }
}

// What a page of its own has of it: a classifier's labels, a continuation; null if neither.
const madeOf = ({labels, continuation = null}) =>
  (labels || continuation !== null
    ? {predictions: labels ? [{name: 'label', candidates: labels}] : [], embedding: null, continuation}
    : null);

// `chunkText(n)` gives chunk n in base64.
class Trace {
  constructor(description, chunkText, size = 0) {
    this.description = description;
    this.size = size; // bytes, to tell the reader
    this.served = null; // {text, off} if a server made it
    this.made = madeOf(description); // {predictions, embedding, continuation}: what its model made of the text
    this.bits = description.bits;
    this.sides = {
      source: description.source,
      target: description.target,
      given: description.given,
    };
    this.chunkText = chunkText;
    this.kept = new Map();
    this.keptCount = 0;
    this.groups = new Map(description.groups.map(g => [g.kind, new Group(this, g)]));
  }

  // The group that a reader should see first.
  get main() {
    return KIND_ORDER.find(kind => this.groups.has(kind));
  }
  // Whether keys are words or the like, not patches of a picture or moments of sound.
  get readsWords() {
    return !this.description.picture && !this.groups.get(this.main).keys.timed;
  }
  // What a decoder wrote, as a sentence; empty for anything else.
  get output() {
    if (this.made && this.made.continuation !== null) return this.made.continuation.trim();
    const cross = this.groups.get('cross');
    return cross ? cross.queries.sentence() : '';
  }

  async chunk(number) {
    return inflate(bytesOfBase64(this.chunkText(number)));
  }

  // make()'s result, cached under `key`; least recently used entries are evicted first.
  keep(key, count, make) {
    const found = this.kept.get(key);
    if (found) {
      this.kept.delete(key);
      this.kept.set(key, found);
      return found.value;
    }
    for (const [old, {count: size}] of this.kept) {
      if (this.keptCount + count <= KEPT_WEIGHTS) break;
      this.kept.delete(old);
      this.keptCount -= size;
    }
    const value = make();
    this.kept.set(key, {value, count});
    this.keptCount += count;
    return value;
  }
}
