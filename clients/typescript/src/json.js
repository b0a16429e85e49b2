/**
 * JSON that loses nothing: what JSON cannot represent is refused, and integers that a
 * number cannot represent are bigints.
 */

import { VecallArgumentError } from "./errors.js";

/** @typedef {import("./schemas.js").JsonValue} JsonValue */

const MAX_DEPTH = 64;

/**
 * Return a value as JSON.
 *
 * @param {unknown} value
 * @returns {string}
 * @throws {VecallArgumentError} JSON cannot represent the value.
 */
export function encode(value) {
  const found = { bigint: false };
  check(value, "body", 0, found);
  if (!found.bigint) return JSON.stringify(value);
  const tag = randomTag();
  const text = JSON.stringify(value, (_, each) =>
    typeof each === "bigint" ? `${tag}${each}` : each,
  );
  return text.replace(new RegExp(`"${tag}(-?[0-9]+)"`, "g"), "$1");
}

/**
 * @param {unknown} value
 * @param {string} where
 * @param {number} depth
 * @param {{ bigint: boolean }} found
 */
function check(value, where, depth, found) {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "bigint":
      found.bigint = true;
      return;
    case "number":
      if (Number.isFinite(value)) return;
      throw new VecallArgumentError(`${where}: must be a finite number`);
    case "object":
      break;
    default:
      throw new VecallArgumentError(`${where}: ${typeof value} is not a JSON value`);
  }
  if (value === null) return;
  if (depth === MAX_DEPTH) {
    throw new VecallArgumentError(`body: must be at most ${MAX_DEPTH} levels deep`);
  }
  if (Array.isArray(value)) {
    for (const item of value) check(item, `${where}[]`, depth + 1, found);
    return;
  }
  if (value instanceof Date) {
    if (!Number.isNaN(value.getTime())) return;
    throw new VecallArgumentError(`${where}: must be a valid date`);
  }
  const kind = Object.prototype.toString.call(value);
  if (kind !== "[object Object]") {
    throw new VecallArgumentError(`${where}: ${kind} is not a JSON value`);
  }
  for (const item of Object.values(value)) {
    // Like an absent field. A key may be user text, so no error contains it.
    if (item !== undefined) check(item, `${where}.*`, depth + 1, found);
  }
}

/**
 * Return the value of a JSON text.
 *
 * @param {string} text
 * @returns {JsonValue}
 * @throws {SyntaxError} The text is not JSON.
 */
export function decode(text) {
  if (!/[0-9]{16}/.test(text)) return JSON.parse(text);
  const tag = randomTag();
  let inString = false;
  let replaced = false;
  const marked = text.replace(/"|\\.|-?[0-9][0-9.eE+-]*/g, (token) => {
    if (token === '"') {
      inString = !inString;
    } else if (!inString && isUnsafeInteger(token)) {
      replaced = true;
      return `"${tag}${token}"`;
    }
    return token;
  });
  if (!replaced) return JSON.parse(text);
  return JSON.parse(marked, (_, each) =>
    typeof each === "string" && each.startsWith(tag) ? BigInt(each.slice(tag.length)) : each,
  );
}

/** @param {string} token */
function isUnsafeInteger(token) {
  return /^-?[1-9][0-9]*$/.test(token) && !Number.isSafeInteger(Number(token));
}

/** A string that no text contains, because its writer cannot know it. */
function randomTag() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A new idempotency key. */
export const randomKey = randomTag;
