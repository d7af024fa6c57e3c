// The part of the pages that needs a browser: live blocks, pause, times, theme, keys, choosing all.
// Everything else works without it.
"use strict";
(() => {
  const BACKOFF_MS = [500, 1000, 2000, 4000, 8000, 15000];
  const SILENCE_MS = 40000; // the console sends a beat every 15 s
  const PATIENCE_MS = 2000; // a console that is back so soon needs no banner

  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const one = (what, where = document) => where.querySelector(what);
  const button = (name) => one(`button[data-do="${name}"]`);

  function kept(key, fallback) {
    try {
      return localStorage.getItem(key) || fallback;
    } catch {
      return fallback; // no storage: as without a choice
    }
  }

  function keep(key, value) {
    try {
      localStorage.setItem(key, value);
    } catch {
      // It holds for this page only.
    }
  }

  // --- Times: the page has UTC, the datetime attribute says when it was ---

  let zone = kept("time", "utc");
  const two = (number) => String(number).padStart(2, "0");
  const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");

  function local(at) {
    return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}`;
  }

  function now() {
    const at = new Date();
    return zone === "local" ? clock(at) : `${at.toISOString().slice(11, 19)} UTC`;
  }

  function writeTimes(where) {
    for (const each of all("time[datetime]", where)) {
      const at = new Date(each.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      each.dataset.utc ??= each.textContent;
      const [text, title] = zone === "local" ? [local(at), each.dataset.utc] : [each.dataset.utc, `${local(at)} local`];
      if (each.textContent !== text) each.textContent = text;
      each.title = title;
    }
    for (const each of all("text[data-at]", where)) {
      const at = new Date(each.dataset.at * 1000);
      each.dataset.utc ??= each.textContent;
      const text = zone === "local" ? clock(at).slice(0, each.dataset.utc.length) : each.dataset.utc;
      if (each.textContent !== text) each.textContent = text;
    }
  }

  function showZone() {
    const shown = button("time");
    shown.textContent = zone === "local" ? "Local time" : "UTC";
    shown.title = "Times in UTC or as on this computer (t)";
    writeTimes(document);
  }

  function switchZone() {
    zone = zone === "local" ? "utc" : "local";
    keep("time", zone);
    showZone();
  }

  // --- Theme: theme.js has set it before the first paint ---

  const THEMES = { auto: "light", light: "dark", dark: "auto" };

  function showTheme() {
    const theme = document.documentElement.dataset.theme || "auto";
    button("theme").textContent = `Theme: ${theme}`;
  }

  function switchTheme() {
    const root = document.documentElement;
    const next = THEMES[root.dataset.theme || "auto"];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    keep("theme", next);
    showTheme();
  }

  // --- Blocks: what is new is brought into what is there, so that focus, open parts and scrolling stay ---

  const keyOf = (node) => {
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (node.id) return `#${node.id}`;
    if (node.tagName !== "TR" && node.tagName !== "LI") return "";
    return one("input[type=checkbox]", node)?.value || one("a[href]", node)?.getAttribute("href") || "";
  };

  function update(node, fresh) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== fresh.data) {
        node.data = fresh.data;
        // Where a number has changed, the eye finds it.
        node.parentElement?.closest(".number, td.right")?.animate([{ color: "var(--accent)" }, {}], 1200);
      }
      return;
    }
    if (node.tagName === "TIME" && node.dataset.utc === fresh.textContent && node.dateTime === fresh.dateTime) return;
    if (node.isEqualNode(fresh)) return;
    const mine = new Set(["data-utc", "tabindex"]);
    if (node.tagName === "DETAILS") mine.add("open");
    if (node.tagName === "INPUT" || node.tagName === "TEXTAREA") mine.add("value");
    for (const { name, value } of [...fresh.attributes]) {
      if (!(mine.has(name) && name !== "value") && node.getAttribute(name) !== value) node.setAttribute(name, value);
    }
    for (const { name } of [...node.attributes]) {
      if (!fresh.hasAttribute(name) && !mine.has(name)) node.removeAttribute(name);
    }
    delete node.dataset.utc;
    if (node.tagName !== "TEXTAREA") bring(node, fresh);
  }

  function bring(node, fresh) {
    const there = new Map();
    for (const each of node.childNodes) {
      const key = keyOf(each);
      if (key && !there.has(key)) there.set(key, each);
    }
    const wanted = new Set([...fresh.childNodes].map(keyOf));
    let at = node.firstChild;
    for (const want of [...fresh.childNodes]) {
      const key = keyOf(want);
      while (at && keyOf(at) && !wanted.has(keyOf(at))) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      let found = key ? there.get(key) : null;
      there.delete(key);
      if (!key && at && !keyOf(at) && at.nodeName === want.nodeName) found = at;
      if (!found || found.nodeName !== want.nodeName) {
        node.insertBefore(want, at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else node.insertBefore(found, at);
      update(found, want);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  const isChoice = (node) => node.type === "checkbox" || node.type === "radio";
  const choice = (node) => `${node.name}=${node.value}`;

  function swap(block, html) {
    const fresh = block.cloneNode(false);
    fresh.innerHTML = html;
    const focused = document.activeElement;
    const old = all("input", block).filter(isChoice);
    const were = new Map(old.map((each) => [choice(each), each.checked]));
    bring(block, fresh);
    for (const each of all("input", block).filter(isChoice)) {
      each.checked = were.get(choice(each)) ?? each.defaultChecked; // a row that moved takes its choice along
    }
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    writeTimes(block);
  }

  function isBusy(block) {
    const selected = document.getSelection();
    const isMarked = selected && !selected.isCollapsed && selected.rangeCount && selected.getRangeAt(0).intersectsNode(block);
    return isMarked || block.contains(pressed) || block.contains(document.activeElement?.closest("select, textarea"));
  }

  let pressed = null; // what the pointer went down on: a swap in the middle would lose the click
  document.addEventListener("pointerdown", (event) => (pressed = event.target), true);
  for (const name of ["click", "pointercancel", "dragend"]) {
    document.addEventListener(name, () => (pressed = null), true);
  }
  document.addEventListener("pointerup", () => setTimeout(() => (pressed = null)), true);

  const shown = new Map();

  function show(blocks) {
    for (const [name, html] of Object.entries(blocks)) {
      const block = one(`[data-live="${CSS.escape(name)}"]`);
      if (!block || shown.get(name) === html || isBusy(block)) continue;
      swap(block, html);
      shown.set(name, html);
    }
    count();
  }

  // --- The stream ---

  const state = one("[data-live-state]");
  const banner = one("#banner");
  const isLive = Boolean(state && one("[data-live]"));
  let isPaused = false;
  let opened = null; // the AbortController of the open stream
  let waiting = 0; // the timer of the next attempt
  let attempts = 0;
  let lostAt = null; // {text, at}: since when nothing is heard

  function say(kind, text) {
    state.hidden = false;
    state.className = `live-state ${kind}`;
    if (state.textContent !== text) state.textContent = text;
  }

  function warn(text) {
    if (!text === banner.hidden && banner.textContent === text) return;
    banner.textContent = text;
    banner.hidden = !text;
  }

  function heard() {
    attempts = 0;
    lostAt = null;
    say("", "live");
  }

  function take(event) {
    const lines = event.split("\n");
    const data = lines.find((line) => line.startsWith("data: "));
    if (!data) return;
    heard();
    const about = JSON.parse(data.slice(6));
    if (lines.includes("event: away")) {
      say("lost", "away");
      warn(`Since ${now()}: ${about.reason}. This page shows what was known before; trying again.`);
      return;
    }
    warn("");
    show(about.blocks);
  }

  async function read(response, control) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const silent = setTimeout(() => control.abort(), SILENCE_MS);
      const { value, done } = await reader.read().finally(() => clearTimeout(silent));
      if (done || control !== opened) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      events.forEach(take);
    }
  }

  async function open() {
    clearTimeout(waiting);
    if (opened || isPaused || document.hidden) return;
    const control = (opened = new AbortController());
    let why = "";
    const patience = setTimeout(() => control.abort(), SILENCE_MS);
    try {
      const response = await fetch(location.pathname + location.search, {
        headers: { Accept: "text/event-stream" },
        signal: control.signal,
        redirect: "manual",
        cache: "no-store",
      });
      clearTimeout(patience);
      if (response.type === "opaqueredirect" || response.status === 401) {
        location.reload(); // the login has ended
        return;
      }
      if (response.ok) await read(response, control);
      else why = (await response.text()).trim().slice(0, 200);
    } catch {
      // Not reached, or lost: what follows is the same.
    } finally {
      clearTimeout(patience);
    }
    if (control === opened) lose(why);
  }

  function lose(why) {
    opened = null;
    lostAt ??= { text: now(), at: Date.now() };
    if (why) warn(`This page is not live: ${why}`);
    else if (Date.now() - lostAt.at >= PATIENCE_MS || attempts > 1) {
      warn(`The server, or its console, has not answered since ${lostAt.text}. Trying again; what you see is from before.`);
    }
    if (attempts) say("lost", "lost");
    waiting = setTimeout(open, BACKOFF_MS[Math.min(attempts, BACKOFF_MS.length - 1)]);
    attempts += 1;
  }

  function close() {
    clearTimeout(waiting);
    const control = opened;
    opened = null;
    control?.abort();
  }

  function switchPause() {
    if (!isLive) return;
    isPaused = !isPaused;
    const shown = button("pause");
    shown.setAttribute("aria-pressed", String(isPaused));
    shown.textContent = isPaused ? "Go on" : "Pause";
    if (isPaused) {
      close();
      say("paused", `paused at ${now()}`);
    } else {
      attempts = 0;
      open();
    }
  }

  // --- Choosing many ---

  const choices = (box) => all("input[type=checkbox][name=id]", box.closest("table") || document);

  function count() {
    for (const box of all("input[data-choose-all]")) {
      const boxes = choices(box);
      box.hidden = false;
      for (const each of boxes) each.closest("tr")?.setAttribute("aria-selected", String(each.checked));
      const chosen = boxes.filter((each) => each.checked).length;
      box.checked = chosen > 0 && chosen === boxes.length;
      box.indeterminate = chosen > 0 && chosen < boxes.length;
      const text = boxes[0]?.form && one("[data-chosen]", boxes[0].form);
      if (text) text.textContent = chosen ? ` (${chosen})` : "";
    }
  }

  let lastChosen = null;

  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    if ("chooseAll" in box.dataset) {
      for (const each of choices(box)) each.checked = box.checked;
    } else if (box.name === "id") {
      const boxes = choices(box);
      const [from, to] = [boxes.indexOf(lastChosen), boxes.indexOf(box)].sort((a, b) => a - b);
      if (event.shiftKey && from >= 0) for (const each of boxes.slice(from, to + 1)) each.checked = box.checked;
      lastChosen = box;
    }
    count();
  });

  // A filter that is not used is not in the address.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "get") return;
    const empty = all("input, select", form).filter((each) => each.name && !each.value && !each.disabled);
    for (const each of empty) each.disabled = true;
    setTimeout(() => empty.forEach((each) => (each.disabled = false)));
  });

  // --- Keys ---

  const rows = () => all("main tbody tr").filter((each) => each.offsetParent); // those that are not folded
  let isGoing = false; // g was the last key

  function step(by) {
    const found = rows();
    if (!found.length) return;
    const at = found.indexOf(document.activeElement?.closest("tr"));
    const next = found[at < 0 ? (by > 0 ? 0 : found.length - 1) : Math.min(Math.max(at + by, 0), found.length - 1)];
    next.tabIndex = -1;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  const row = () => document.activeElement?.closest("main tbody tr");

  const KEYS = {
    "?": ["This list", () => help()],
    "/": ["Filter", () => one("main input[type=search], main input[type=text]")?.focus()],
    j: ["Next row", () => step(1)],
    k: ["Row before", () => step(-1)],
    x: ["Choose the row", () => one("input[type=checkbox]:not(:disabled)", row() || document.createElement("p"))?.click()],
    p: ["Pause, or go on", switchPause],
    t: ["Times in UTC or local", switchZone],
  };

  function made(tag, text, ...children) {
    const node = document.createElement(tag);
    node.textContent = text;
    node.append(...children);
    return node;
  }

  function help() {
    const old = one("dialog.help");
    if (old) {
      old.close();
      return;
    }
    const list = made("dl", "");
    const add = (keys, text) => {
      const term = made("dt", "");
      keys.forEach((key) => term.append(made("kbd", key), " "));
      list.append(made("div", "", term, made("dd", text)));
    };
    for (const [key, [text]] of Object.entries(KEYS)) add([key], text);
    add(["Enter"], "Open the row");
    add(["Esc"], "Leave the field, the row or this list");
    for (const each of all("nav a[data-key]")) add(["g", each.dataset.key], each.textContent);
    const close = made("button", "Close");
    const title = made("h2", "Keys");
    title.id = "help-title";
    const dialog = made("dialog", "", title, list, close);
    dialog.className = "help";
    dialog.setAttribute("aria-labelledby", title.id);
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
    dialog.scrollTop = 0;
  }

  const isTyping = (node) =>
    node?.matches("textarea, select, [contenteditable]") ||
    (node?.matches("input") && !["checkbox", "radio", "button", "submit"].includes(node.type));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const focused = document.activeElement;
    if (event.key === "Shift") return;
    if (event.key === "Escape" && !one("dialog[open]")) {
      isGoing = false;
      focused?.blur();
      return;
    }
    if (isTyping(focused) || (one("dialog[open]") && event.key !== "?")) return;
    if (event.key === "Enter" && focused?.tagName === "TR") {
      one("summary, a[href]", focused)?.click();
      return;
    }
    if (isGoing) {
      isGoing = false;
      one(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    } else if (event.key === "g") {
      isGoing = true;
    } else if (Object.hasOwn(KEYS, event.key)) {
      KEYS[event.key][1]();
    } else {
      return;
    }
    event.preventDefault();
  });

  // --- Begin ---

  const DOES = { pause: switchPause, time: switchZone, theme: switchTheme, help };
  for (const [name, does] of Object.entries(DOES)) {
    const found = button(name);
    if (!found || (does === switchPause && !isLive)) continue;
    found.hidden = false;
    found.addEventListener("click", does);
  }
  if (button("time")) showZone();
  if (button("theme")) showTheme();
  document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  count();
  if (isLive) {
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    window.addEventListener("pagehide", close);
    window.addEventListener("pageshow", () => open());
    say("", "live");
    open();
  }
})();
