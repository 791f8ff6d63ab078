// Package agents starts real coding agents offline, against a model endpoint on loopback, and
// looks at what a hook can stop. Claude Code, Codex, Gemini CLI and Copilot CLI are packages of
// npm. A test skips where its client's command is in none of the folders of FIADOR_AGENTS (a
// list like PATH) and PATH.
package agents
