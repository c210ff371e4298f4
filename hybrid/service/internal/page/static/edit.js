// What the editor does beside the server: it completes keys and units, goes to the next mistake,
// and saves by a key. Without it all of the page works; the browser finds text in it.
(() => {
  'use strict';
  const text = document.getElementById('text');
  if (!text || !text.dataset.words) return;
  const words = JSON.parse(text.dataset.words);
  const sheet = text.parentElement;
  const list = document.createElement('ul');
  list.id = 'words';
  list.className = 'words';
  list.setAttribute('role', 'listbox');
  list.setAttribute('aria-label', 'Words that fit');
  list.hidden = true;
  sheet.append(list);
  text.setAttribute('aria-autocomplete', 'list');
  text.setAttribute('aria-controls', list.id);
  document.getElementById('keys').hidden = false;
  let chosen = -1, typed = '';

  // around returns the line of the caret before it, and the lines above.
  const around = () => {
    const before = text.value.slice(0, text.selectionStart).split('\n');
    return { line: before.pop(), above: before };
  };

  // parent is the nearest line above that is less indented.
  const parent = (line, above) => {
    const depth = s => s.match(/^[ ]*(- *)?/)[0].length;
    let least = depth(line);
    for (let i = above.length - 1; i >= 0; i--) {
      if (!above[i].trim() || /^\s*#/.test(above[i]) || above[i].search(/\S/) >= least) continue;
      return above[i];
    }
    return '';
  };

  const known = (name) => (Object.hasOwn(words, name) ? words[name] : undefined);

  // fitting are the words that may stand at the caret, and what of one is typed.
  const fitting = () => {
    const { line, above } = around();
    if (/^[^"']*#/.test(line)) return { at: '', from: [] };
    const value = line.match(/(?:^|[\s{,])(\w+): +(\w*)$/);
    if (value) return { at: value[2], from: known(value[1] + ':') || [] };
    const key = line.match(/^(\s*(?:- +)?(?:.*[{,] *)?)(\w*)$/);
    if (!key) return { at: '', from: [] };
    const open = line.lastIndexOf('{') > line.lastIndexOf('}') ? line.slice(0, line.lastIndexOf('{')) : '';
    const of = open || parent(line, above);
    const name = (of.match(/(\w+): *(?:#.*)?$/) || [])[1] || '';
    const from = known(name) || (/^(- +)?\w*$/.test(line) && !/^-/.test(line) ? words.domain : words.descriptors);
    return { at: key[2], from };
  };

  const close = () => {
    list.hidden = true;
    chosen = -1;
    text.removeAttribute('aria-activedescendant');
  };

  const choose = i => {
    const all = [...list.children];
    chosen = (i + all.length) % all.length;
    all.forEach((e, j) => e.setAttribute('aria-selected', String(j === chosen)));
    text.setAttribute('aria-activedescendant', all[chosen].id);
    all[chosen].scrollIntoView({ block: 'nearest' });
  };

  // open shows the words that begin with what is typed, at the caret.
  const open = asked => {
    const { at, from } = fitting();
    const found = from.filter(w => w.startsWith(at) && w !== at);
    if (!found.length || !asked && !at || text.selectionStart !== text.selectionEnd ||
      /^\w/.test(text.value.slice(text.selectionEnd))) return close();
    typed = at;
    list.replaceChildren(...found.map((word, i) => {
      const e = document.createElement('li');
      e.id = 'word-' + i;
      e.setAttribute('role', 'option');
      e.textContent = word;
      e.addEventListener('mousedown', event => { event.preventDefault(); take(i); });
      return e;
    }));
    const { line, above } = around();
    const style = getComputedStyle(text), height = parseFloat(style.lineHeight);
    const ruler = document.createElement('span');
    ruler.className = 'ruler';
    ruler.textContent = line.slice(0, line.length - at.length);
    sheet.append(ruler);
    list.style.left = text.offsetLeft + parseFloat(style.paddingLeft) + ruler.offsetWidth + 'px';
    ruler.remove();
    list.hidden = false;
    const below = parseFloat(style.paddingTop) + (above.length + 1) * height;
    const frame = sheet.parentElement, over = below - height - list.offsetHeight;
    const room = below + list.offsetHeight <= frame.scrollTop + frame.clientHeight;
    list.style.top = (room || over < frame.scrollTop ? below : over) + 'px';
    choose(0);
  };

  // take puts a word in the place of what is typed of it, so that it can be undone.
  const take = i => {
    const word = list.children[i].textContent, { line, above } = around();
    const key = !/\w+: +\w*$/.test(line);
    const end = text.selectionStart;
    text.setSelectionRange(end - typed.length, end);
    close();
    document.execCommand('insertText', false, word + (key ? ': ' : ''));
    close();
  };

  // next goes to the first mistake behind the caret, or to the first of all.
  const next = () => {
    const places = [...document.querySelectorAll('.mistakes [data-line]')]
      .map(e => [Number(e.dataset.line), Number(e.dataset.column)])
      .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    if (!places.length) return;
    const { line, above } = around(), here = [above.length + 1, line.length + 1];
    const to = places.find(p => p[0] > here[0] || p[0] === here[0] && p[1] > here[1]) || places[0];
    const lines = text.value.split('\n').slice(0, to[0] - 1);
    const at = lines.reduce((sum, l) => sum + l.length + 1, 0) + Math.max(0, to[1] - 1);
    text.focus({ preventScroll: true });
    text.setSelectionRange(at, at);
    const number = document.getElementById('line-' + to[0]);
    if (number) number.scrollIntoView({ block: 'center' });
  };

  text.addEventListener('input', event => {
    if (event.inputType === 'insertText' || event.inputType === 'deleteContentBackward') open(false);
    else close();
  });
  text.addEventListener('blur', close);
  text.addEventListener('click', close);
  text.addEventListener('keydown', event => {
    if (event.isComposing) return;
    if (event.key === ' ' && event.ctrlKey) { event.preventDefault(); open(true); return; }
    if (list.hidden) return;
    const keys = {
      ArrowDown: () => choose(chosen + 1), ArrowUp: () => choose(chosen - 1),
      Enter: () => take(chosen), Tab: () => take(chosen), Escape: close,
    };
    if (keys[event.key] && !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      keys[event.key]();
    } else if (['ArrowLeft', 'ArrowRight', 'Home', 'End', 'PageUp', 'PageDown'].includes(event.key)) {
      close();
    }
  });
  document.addEventListener('keydown', event => {
    if (event.key === 's' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      text.form.requestSubmit(text.form.querySelector('[value="save"]'));
    } else if (event.key === 'F8') {
      event.preventDefault();
      next();
    }
  });
})();
