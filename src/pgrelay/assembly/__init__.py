"""From the order of arrival to the order of commit; what waits for its commit does so here, or on disk."""
