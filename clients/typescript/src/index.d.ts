export * from "./errors.js";
export { VecallClient, UserMemory } from "./operations.js";
export type * from "./operations.js";
export * from "./response_errors.js";
export type * from "./schemas.js";
export type { CallOptions, ClientOptions } from "./transport.js";
