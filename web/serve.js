// SPDX-License-Identifier: MIT
// A page without a trace requests one from its server:
//
//     GET  model       {name, task, input, from, to, examples, pictures}: what it runs, on texts or
//                      pictures, its languages, texts or names of pictures to try, and their files
//     POST translate   {text, disabled_heads} returns the description and the chunks of a trace
//     POST look        the same of a model that does not translate, with what it predicts
//
// What was asked is kept, so that Back and comparisons need no second answer.

const KEPT_ANSWERS = 12;
// `asked`: the state that is being computed, or null; a later one replaces it. `pictures`: name to base64.
const served = {model: null, answers: new Map(), pictures: new Map(), asked: null};

// What a model does with a text. A server that names no task translates.
const TASKS = {
  translate: {button: 'Translate', hint: 'A sentence to translate', again: 'translate without it'},
  continue: {button: 'Continue', hint: 'The beginning of a text', again: 'continue without it'},
  fill: {button: 'Fill', hint: 'A sentence with ___ for a word', again: 'fill without it'},
  classify: {button: 'Classify', hint: 'A sentence to classify', again: 'classify without it'},
  embed: {button: 'Show', hint: 'A sentence', again: 'run the model without it'},
};
const servesPictures = () => served.model !== null && served.model.input === 'picture';
const servedTask = () => (served.model && Object.hasOwn(TASKS, served.model.task) ? served.model.task : 'translate');

// The error message from the server's {"error": ...}, or else the plain response.
async function refusal(answer) {
  const text = await answer.text();
  try {
    return new Error(JSON.parse(text).error || text);
  } catch {
    return new Error(`${answer.status} ${text}`);
  }
}

// A picture stands under its name, which is the text of the address.
const bodyForServer = text =>
  (servesPictures() ? {name: text, picture: served.pictures.get(text)} : {text});

// A model of one stack has no kinds of heads: its server takes "2:0" for "enc.2.0".
const headsForServer = off => off.split(',').map(name =>
  (servedTask() === 'translate' ? name : name.split('.').slice(1).join(':')));

async function requestTrace(text, off) {
  const answer = await fetch(servedTask() === 'translate' ? 'translate' : 'look', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({...bodyForServer(text), error_status: 200, ...(off ? {disabled_heads: headsForServer(off)} : {})}),
  });
  if (!answer.ok) throw await refusal(answer);
  const body = await answer.text();
  const {error, trace, chunks, predictions = [], embedding = null, continuation = null, note = ''} = JSON.parse(body);
  if (error) throw new Error(error);
  const made = new Trace(trace, n => chunks[n], body.length);
  made.served = {text, off};
  made.made = {predictions, embedding, continuation, note};
  return made;
}

// The trace of a text with some heads off; null in a page that has its own.
function servedTrace(text, off) {
  const key = JSON.stringify([text, off]);
  let found = served.answers.get(key);
  served.answers.delete(key);
  if (!found) {
    found = requestTrace(text, off);
    found.catch(() => served.answers.delete(key));
  }
  served.answers.set(key, found);
  for (const old of served.answers.keys()) {
    if (served.answers.size <= KEPT_ANSWERS) break;
    served.answers.delete(old);
  }
  return found;
}
const servedTexts = () => [...new Set([...served.answers.keys()].map(key => JSON.parse(key)[0]))];

// ---- heads that are off -----------------------------------------------------------------

const offName = (group, layer, head) => `${OFF_NAMES[group.kind]}.${layer}.${head}`;
const offNames = () => (state.off ? state.off.split(',') : []);
const canDisable = group => group.trace.served !== null && group.kind in OFF_NAMES;
const isOff = (group, layer, head) =>
  head >= 0 && group.kind in OFF_NAMES && offNames().includes(offName(group, layer, head));

// What is shown of a disabled head; null of others.
const offNote = (group, layer, head) =>
  (isOff(group, layer, head)
    ? el('p', {class: 'note'}, 'This head is disabled: what it attends to has no effect.')
    : null);

function toggleOff(group, layer, head) {
  const {off} = served.asked || state; // a second click need not wait for what the first one does
  const name = offName(group, layer, head), names = off ? off.split(',') : [];
  go({off: (names.includes(name) ? names.filter(n => n !== name) : [...names, name].sort()).join(',')});
}
function offSwitch(group, layer, head, label = '') {
  const off = isOff(group, layer, head);
  return el('button', {
    class: 'offswitch',
    'aria-pressed': String(off),
    'aria-label': `Disable ${headTitle(group, layer, head)}`,
    title: off ? 'enable this head again' : `disable this head, and ${TASKS[servedTask()].again}`,
    onclick: () => toggleOff(group, layer, head),
  }, label || (off ? '○' : '●'));
}

// ---- the form -----------------------------------------------------------------------------

function complain(message) {
  $('problem').textContent = message;
  $('problem').hidden = !message;
}

// Shows a text; the page stays as it is if the server refuses it, or if another one is asked for before
// it is there. False then.
async function showServed(wanted) {
  const text = wanted.text.trim(), off = wanted.off || '';
  complain('');
  if (servesPictures() ? !served.pictures.has(text) : !text) {
    complain(servesPictures() ? 'Choose the picture: an address does not carry it.' : 'Type a sentence first.');
    return false;
  }
  const mine = {...wanted, text, off}, typed = $('text').value, another = !current.trace || text !== state.text;
  served.asked = mine;
  document.body.classList.add('busy');
  $('ask').querySelector('button').disabled = true;
  try {
    const trace = await servedTrace(text, off), original = off ? await servedTrace(text, '') : null;
    if (served.asked !== mine) return false;
    current.original = original;
    if (another && $('text').value === typed) $('text').value = text; // else the next one is being typed
    await show(trace, mine);
    complain(trace.made.note);
    drawExamples();
    return true;
  } catch (error) {
    if (served.asked === mine) complain(error.message);
    return false;
  } finally {
    if (served.asked === mine) stopAsking();
  }
}
function stopAsking() {
  served.asked = null;
  document.body.classList.remove('busy');
  $('ask').querySelector('button').disabled = false;
}

function offerExamples() {
  const {from} = served.model, {button, hint} = TASKS[servedTask()];
  $('text').placeholder = from ? `A sentence in ${from}` : hint;
  $('text').setAttribute('aria-label', hint);
  $('ask').querySelector('button.primary').textContent = button;
  drawExamples();
}

// Texts to try, or pictures, those that were chosen as well; what is shown is marked.
function drawExamples() {
  const {examples = []} = served.model || {};
  const texts = [...new Set([...examples, ...(servesPictures() ? served.pictures.keys() : [])])];
  $('examples').replaceChildren('Try: ', ...texts.map(text => el('button', {
    type: 'button', class: 'example', 'aria-pressed': String(current.trace !== null && state.text === text),
    onclick: () => go({text, off: ''}),
  }, text)));
  $('examples').hidden = texts.length === 0;
}

// A form for pictures: a file is shown as soon as it is chosen.
function offerPictures() {
  for (const [name, picture] of Object.entries(served.model.pictures || {})) served.pictures.set(name, picture);
  $('text').hidden = $('ask').querySelector('button.primary').hidden = true;
  $('picture').hidden = false;
  $('picture').addEventListener('change', async () => {
    const [file] = $('picture').files;
    if (!file) return;
    try {
      served.pictures.set(file.name, await pictureForServer(file));
      for (const key of served.answers.keys()) if (JSON.parse(key)[0] === file.name) served.answers.delete(key);
      if (await showServed({...(current.trace ? state : {}), text: file.name, off: '', token: -1})) writeHash(true);
    } catch (error) {
      complain(error.message);
    }
  });
}

async function offerForm() {
  $('ask').hidden = false;
  $('ask').addEventListener('submit', event => {
    event.preventDefault();
    const text = $('text').value;
    if (current.trace) go({text});
    else showServed({text}).then(shown => shown && writeHash());
  });
  try {
    const answer = await fetch('model');
    served.model = answer.ok ? await answer.json() : {};
  } catch {
    served.model = {}; // the form still works, without examples
  }
  offerExamples();
  if (servesPictures()) offerPictures();
  drawIntroduction();
  const wanted = readHash(location.hash), [first] = served.model.examples || [];
  const shown = servesPictures() && !served.pictures.has(wanted.text) ? first : wanted.text || first;
  if (wanted.text && shown !== wanted.text && !(await showServed(wanted))) $('picture').focus();
  else if (shown && (await showServed({...wanted, text: shown}))) writeHash();
  if (!current.trace) $(servesPictures() ? 'picture' : 'text').focus();
}
