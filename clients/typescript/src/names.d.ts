/**
 * Throw unless all names may be segments of a path.
 *
 * @param {{ readonly [field: string]: unknown }} names
 */
export function checkNames(names: {
    readonly [field: string]: unknown;
}): void;
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
export function segment(field: string, name: unknown): string;
