/**
 * Return a value as JSON.
 *
 * @param {unknown} value
 * @returns {string}
 * @throws {VecallArgumentError} JSON cannot represent the value.
 */
export function encode(value: unknown): string;
/**
 * Return the value of a JSON text.
 *
 * @param {string} text
 * @returns {JsonValue}
 * @throws {SyntaxError} The text is not JSON.
 */
export function decode(text: string): JsonValue;
/** A string that no text contains, because its writer cannot know it. */
export function randomKey(): string;
export type JsonValue = import("./schemas.js").JsonValue;
