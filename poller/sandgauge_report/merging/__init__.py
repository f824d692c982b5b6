"""Spans in, sandboxes out: joined by run, rollout, trace and sandbox id; order and repeats make no difference."""
