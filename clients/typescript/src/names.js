import { VecallArgumentError } from "./errors.js";

/**
 * Throw unless all names may be segments of a path.
 *
 * @param {{ readonly [field: string]: unknown }} names
 */
export function checkNames(names) {
  for (const [field, name] of Object.entries(names)) segment(field, name);
}

/**
 * Return a name as a segment of a path.
 *
 * URLs remove "." and ".." even if they are percent-encoded, and would then name another
 * resource.
 *
 * @param {string} field
 * @param {unknown} name
 * @returns {string}
 */
export function segment(field, name) {
  if (typeof name !== "string" || name === "" || name.includes("\0")) {
    throw new VecallArgumentError(`${field}: must be a non-empty string without NUL`);
  }
  if (name === "." || name === "..") {
    throw new VecallArgumentError(`${field}: a URL cannot contain the names "." and ".."`);
  }
  try {
    return encodeURIComponent(name);
  } catch {
    throw new VecallArgumentError(`${field}: must not contain lone surrogates`);
  }
}
