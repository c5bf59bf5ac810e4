"""From the order of arrival to the order of commit. Open transactions wait here, in memory or on disk."""
